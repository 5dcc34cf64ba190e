//! Reads what a fuzzing run prints.

use std::path::PathBuf;

/// What a run has told so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Inputs tried.
    pub(super) runs: u64,
    /// Edges that the corpus covered when the run began.
    pub(super) edges_first: u64,
    /// Edges covered when last told.
    pub(super) edges_last: u64,
    /// The file with the input that broke the target.
    pub(super) artifact: Option<PathBuf>,
}

impl Progress {
    /// Takes in one line, and says whether a person wants to see it: libFuzzer prints one for every input
    /// that it adds to its corpus.
    pub(super) fn read(&mut self, line: &str) -> bool {
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.artifact = Some(PathBuf::from(path.trim()));
            return true;
        }
        if let Some(runs) = line.strip_prefix("Done ").and_then(first_number) {
            self.runs = runs;
            return false;
        }
        let Some(state) = line.strip_prefix('#').and_then(|line| line.split_once('\t')) else {
            return !is_chatter(line);
        };
        if let Some(edges) = line.split_once("cov: ").and_then(|(_, rest)| first_number(rest)) {
            self.edges_last = edges;
            if state.1.starts_with("INITED") {
                self.edges_first = edges;
            }
        }
        false
    }
}

/// What libFuzzer says of itself and of words it liked. Its random seed is kept: it repeats a run.
fn is_chatter(line: &str) -> bool {
    const STARTS: [&str; 4] = ["WARNING: Failed to find function ", "INFO: ", "\tNEW_FUNC", "###### "];
    let is_word = line.starts_with('"') && line.contains(" # Uses: ");
    !line.starts_with("INFO: Seed:") && (is_word || STARTS.iter().any(|start| line.starts_with(start)))
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_runs_and_the_breaking_input_are_read() {
        let mut progress = Progress::default();
        let quiet = [
            "WARNING: Failed to find function \"__sanitizer_acquire_crash_state\".",
            "INFO: Loaded 1 modules   (210 inline 8-bit counters): 210 [0x55, 0x56),",
            "#3\tINITED cov: 31 ft: 32 corp: 2/57b exec/s: 0 rss: 30Mb",
            "#911\tNEW    cov: 40 ft: 51 corp: 9/113b lim: 33 exec/s: 0 rss: 30Mb L: 4/4 MS: 1 ChangeBit-",
            "#4096\tpulse  cov: 57 ft: 70 corp: 12/200b lim: 66 exec/s: 2048 rss: 31Mb",
            "\tNEW_FUNC[1/7]: 0x558700dafb61",
            "###### Recommended dictionary. ######",
            "\"\\001\\000\" # Uses: 31786",
            "Done 9001 runs in 3 second(s)",
        ];
        for line in quiet {
            assert!(!progress.read(line), "{line}");
        }
        let shown = ["INFO: Seed: 1234", "thread panicked at fuzz/src/targets.rs:12:9:"];
        for line in shown {
            assert!(progress.read(line), "{line}");
        }
        let (runs, edges_first, edges_last) = (9001, 31, 57);
        assert_eq!(progress, Progress { runs, edges_first, edges_last, artifact: None });
        progress.read("artifact_prefix='a/'; Test unit written to a/crash-00ff");
        assert_eq!(progress.artifact, Some(PathBuf::from("a/crash-00ff")));
    }
}
