//! Inputs that runs have found and that later runs begin with: few, and they cover much. A text file for each target, with an
//! input on each line as hexadecimal digits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};

use crate::FuzzTarget;

/// How many inputs a target keeps at most.
pub const INPUTS_MAX: usize = 32;
/// How many bytes its file has at most.
pub const FILE_BYTES_MAX: usize = 50 << 10;

const HEAD: &str = "# What covers most in few bytes, by `cargo xtask fuzz --keep`: an input on each line.\n";

/// Where the inputs of a target are.
pub fn path(target: &FuzzTarget) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kept").join(target.name).with_extension("txt")
}

/// The inputs that a target keeps; none if there is no file.
pub fn read(target: &FuzzTarget) -> Result<Vec<Vec<u8>>> {
    let path = path(target);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| format!("could not read {}", path.display()))?,
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let inputs = lines.map(decode).collect::<Option<_>>();
    inputs.with_context(|| format!("{} has a line that is no pairs of hexadecimal digits", path.display()))
}

/// Keeps those of the inputs that libFuzzer's control file of a merge names, which together cover most. Returns how many.
pub fn keep(target: &FuzzTarget, control: &Path) -> Result<usize> {
    let found =
        fs::read_to_string(control).with_context(|| format!("could not read {}", control.display()))?;
    let mut candidates = Vec::new();
    for (file, features) in parse(&found).context("this is no control file of libFuzzer's merge")? {
        let input = fs::read(&file).with_context(|| format!("could not read {}", file.display()))?;
        candidates.push((input, features));
    }
    let inputs = choose(candidates);
    let lines: String = inputs.iter().map(|input| encode(input) + "\n").collect();
    let path = path(target);
    fs::create_dir_all(path.parent().unwrap_or(&path)).context("could not make the folder of kept inputs")?;
    fs::write(&path, HEAD.to_owned() + &lines)
        .with_context(|| format!("could not write {}", path.display()))?;
    Ok(inputs.len())
}

/// The files of a merge, each with the features that it covers: two counts, so many names, and then for each file lines that
/// begin with its number.
fn parse(control: &str) -> Option<Vec<(PathBuf, BTreeSet<u64>)>> {
    let mut lines = control.lines();
    let count: usize = lines.next()?.parse().ok()?;
    lines.next()?.parse::<usize>().ok()?;
    let mut files: Vec<_> =
        lines.by_ref().take(count).map(|name| (PathBuf::from(name), BTreeSet::new())).collect();
    for line in lines {
        let mut words = line.split_whitespace();
        if words.next() == Some("FT") {
            let number: usize = words.next()?.parse().ok()?;
            let features = words.map(|word| word.parse().ok()).collect::<Option<BTreeSet<u64>>>()?;
            files.get_mut(number)?.1.extend(features);
        }
    }
    (files.len() == count).then_some(files)
}

/// Takes the input that covers most of what is not covered yet, the shortest of several, until nothing new or no room is left.
fn choose(mut candidates: Vec<(Vec<u8>, BTreeSet<u64>)>) -> Vec<Vec<u8>> {
    let (mut chosen, mut room) = (Vec::new(), FILE_BYTES_MAX - HEAD.len());
    while chosen.len() < INPUTS_MAX {
        candidates.retain(|(input, features)| !features.is_empty() && 2 * input.len() < room);
        let most = |(_, (input, features)): &(usize, &(Vec<u8>, BTreeSet<u64>))| {
            (features.len(), std::cmp::Reverse(input.len()))
        };
        let Some((place, _)) = candidates.iter().enumerate().max_by_key(most) else { break };
        let (input, covered) = candidates.swap_remove(place);
        candidates.iter_mut().for_each(|(_, features)| features.retain(|feature| !covered.contains(feature)));
        room -= 2 * input.len() + 1;
        chosen.push(input);
    }
    chosen
}

fn encode(input: &[u8]) -> String {
    input.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(line: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| Some((byte as char).to_digit(16)? as u8);
    line.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_written_as_it_is_read() {
        let input: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&input)), Some(input));
        assert_eq!(decode(""), Some(Vec::new()));
        assert_eq!((decode("0"), decode("0g"), decode("ä")), (None, None, None));
    }

    #[test]
    fn a_control_file_is_read() {
        let control =
            "2\n0\ncorpus/a b\ncorpus/c\nSTARTED 0 3\nFT 0 1 2\nCOV 0 9\nSTARTED 1 4\nFT 1 2 3 4\nCOV 1\n";
        let files = parse(control).unwrap();
        assert_eq!(files[0], (PathBuf::from("corpus/a b"), BTreeSet::from([1, 2])));
        assert_eq!(files[1].1, BTreeSet::from([2, 3, 4]));
        for wrong in ["", "x\n0\n", "2\n0\na\n", "1\n0\na\nFT 1 2\n", "1\n0\na\nFT 0 x\n"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_covers_most_is_kept_within_the_bounds() {
        let of = |len: usize, features: &[u64]| (vec![len as u8; len], features.iter().copied().collect());
        let chosen =
            choose(vec![of(3, &[1, 2]), of(9, &[1, 2, 3]), of(2, &[3]), of(4, &[4]), of(5, &[1, 2, 3])]);
        assert_eq!(chosen.iter().map(Vec::len).collect::<Vec<_>>(), [5, 4]);
        let many = choose((0..1000).map(|number| of(1000, &[number])).collect());
        assert_eq!(many.len(), (FILE_BYTES_MAX - HEAD.len()) / 2001);
        assert_eq!(choose((0..1000).map(|number| of(1, &[number])).collect()).len(), INPUTS_MAX);
    }
}
