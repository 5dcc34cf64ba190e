//! What an application came to, one value per vertex, for other programs.

use std::io::{self, Write};

use crate::Arrays;
use crate::application::ApplicationOutcome;

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// A line per vertex, in the order of vertices.
    Text,
    /// An array of NumPy (`.npy`, version 1.0): 64-bit integers for bfs, radii and components, 32-bit floats for pagerank,
    /// 64-bit floats for betweenness.
    Npy,
}

impl<A: Arrays> ApplicationOutcome<A> {
    /// Writes one value per vertex: the level (bfs) or radius (radii), −1 for a vertex that cannot be reached; the rank, the
    /// score, or the smallest vertex of its component.
    pub fn write_values(&self, format: ValueFormat, output: &mut impl Write) -> io::Result<()> {
        let levels = |raw: &[u32], output: &mut _| {
            // One more than the value, 0 where there is none.
            write_all(format, "<i8", raw, |raw| i64::from(*raw) - 1, i64::to_le_bytes, output)
        };
        match self {
            Self::Bfs(found) => levels(found.raw(), output),
            Self::Radii(found) => levels(found.raw(), output),
            Self::Components(found) => {
                write_all(format, "<i8", found.labels(), |label| i64::from(*label), i64::to_le_bytes, output)
            }
            Self::Pagerank(found) => {
                write_all(format, "<f4", found.ranks(), |rank| *rank, f32::to_le_bytes, output)
            }
            Self::Betweenness(found) => {
                write_all(format, "<f8", found.scores(), |score| *score, f64::to_le_bytes, output)
            }
        }
    }
}

fn write_all<T, V: std::fmt::Display, const N: usize>(
    format: ValueFormat,
    kind: &str,
    values: &[T],
    value: impl Fn(&T) -> V,
    bytes: impl Fn(V) -> [u8; N],
    output: &mut impl Write,
) -> io::Result<()> {
    match format {
        ValueFormat::Text => values.iter().try_for_each(|one| writeln!(output, "{}", value(one))),
        ValueFormat::Npy => {
            output.write_all(&npy_header(kind, values.len()))?;
            values.iter().try_for_each(|one| output.write_all(&bytes(value(one))))
        }
    }
}

/// The beginning of an array file: magic, version, and a description that is padded so that the values are aligned.
fn npy_header(kind: &str, len: usize) -> Vec<u8> {
    const ALIGNED: usize = 64;
    let description = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len},), }}");
    let before = b"\x93NUMPY\x01\x00".len() + 2;
    let padded = (before + description.len() + 1).next_multiple_of(ALIGNED) - before;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((padded as u16).to_le_bytes());
    header.extend(format!("{description:<width$}\n", width = padded - 1).into_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::ApplicationOptions;
    use crate::{Application, CsrView, Dram, GraphView, RunContext, Sweeps, Workers};

    fn written(application: Application, format: ValueFormat) -> Vec<u8> {
        // An edge between 1 and 2 beside a vertex without any.
        let graph = GraphView::symmetric(CsrView::new(&[0, 0, 1, 2], &[2, 1]).unwrap());
        let workers = Workers::new(1).unwrap();
        let run = RunContext { workers: &workers, arrays: &Dram, progress: &(), sweeps: Sweeps::Upwards };
        let mut bytes = Vec::new();
        application
            .run(graph, &ApplicationOptions::default(), &run)
            .unwrap()
            .write_values(format, &mut bytes)
            .unwrap();
        bytes
    }

    #[test]
    fn text_has_a_line_per_vertex() {
        let text = |application| String::from_utf8(written(application, ValueFormat::Text)).unwrap();
        assert_eq!(text(Application::Bfs), "-1\n0\n1\n");
        assert_eq!(text(Application::Components), "0\n1\n1\n");
        let ranks: Vec<f32> = text(Application::Pagerank).lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(ranks.len(), 3);
    }

    #[test]
    fn arrays_are_aligned_and_described() {
        for (application, kind, size) in [
            (Application::Bfs, "<i8", 8),
            (Application::Radii, "<i8", 8),
            (Application::Components, "<i8", 8),
            (Application::Pagerank, "<f4", 4),
            (Application::Betweenness, "<f8", 8),
        ] {
            let bytes = written(application, ValueFormat::Npy);
            let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
            assert_eq!((&bytes[..8], header % 64), (&b"\x93NUMPY\x01\x00"[..], 0));
            let text = std::str::from_utf8(&bytes[10..header]).unwrap();
            assert!(text.contains(kind) && text.contains("(3,)") && text.ends_with('\n'), "{text}");
            assert_eq!(bytes.len() - header, 3 * size);
        }
    }
}
