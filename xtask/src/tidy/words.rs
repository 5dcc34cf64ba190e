//! One word for each concept: the glossary in ARCHITECTURE.md, and the words that it has replaced.

use super::Finding;
use super::tree::{File, Tree};

const PAGE: &str = "ARCHITECTURE.md";
const GLOSSARY: &str = "## The words";
const RETIRED: &str = "### Words that are gone";
/// How many words a reader can be asked to learn.
const WORDS_MAX: usize = 60;
/// Stands for the whole tree in the table of retired words.
const EVERYWHERE: &str = "everywhere";

/// Before words in that table with which no sentence of a comment begins, wherever else they may stand.
const COMMENT: &str = "//";

/// A word, or a few in a row, that stands nowhere any more.
struct Retired {
    words: Vec<String>,
    /// Whether they are gone only from the beginning of comments.
    begins_comment: bool,
    instead: String,
    /// The folders and files from which it is gone; empty for all.
    places: Vec<String>,
}

/// Checks the glossary, and every line of code, comment and page for retired words.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(PAGE).and_then(|file| file.text.as_deref()) else {
        return vec![Finding::error(PAGE, 1, "missing: it has the glossary")];
    };
    let mut findings = Vec::new();
    let retired: Vec<Retired> = match table(page, RETIRED) {
        rows if rows.is_empty() => {
            findings.push(Finding::error(PAGE, 1, format!("no table under `{RETIRED}`")));
            Vec::new()
        }
        rows => rows.iter().filter_map(|(_, cells)| retired(cells)).collect(),
    };
    findings.extend(glossary(page, &retired));
    for file in tree.files.iter().filter(|file| file.is_rust() || file.path.ends_with(".md")) {
        let here: Vec<&Retired> = retired.iter().filter(|retired| retired.is_gone_from(&file.path)).collect();
        findings.extend(uses(file, &here));
    }
    findings
}

/// Checks that the glossary is short, that no word is in it twice, and none that is retired.
fn glossary(page: &str, retired: &[Retired]) -> Vec<Finding> {
    let rows = table(page, GLOSSARY);
    let mut findings = Vec::new();
    if rows.is_empty() || rows.len() > WORDS_MAX {
        let message = format!("{} words under `{GLOSSARY}`; there may be 1 to {WORDS_MAX}", rows.len());
        findings.push(Finding::error(PAGE, 1, message));
    }
    for (index, (line, cells)) in rows.iter().enumerate() {
        let word = &cells[0];
        if rows[..index].iter().any(|(_, before)| before[0] == *word) {
            findings.push(Finding::error(PAGE, *line, format!("`{word}` is in the glossary twice")));
        }
        if retired.iter().any(|retired| retired.words == words_of(word)) {
            findings.push(Finding::error(PAGE, *line, format!("`{word}` is in the glossary, and retired")));
        }
    }
    findings
}

/// The retired words in one file, but in the table that lists them.
fn uses(file: &File, retired: &[&Retired]) -> Vec<Finding> {
    let Some(text) = file.text.as_deref().filter(|_| !retired.is_empty()) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut in_list = false;
    for (index, line) in text.lines().enumerate() {
        if file.path == PAGE && line.starts_with('#') {
            in_list = line == RETIRED;
        }
        if in_list {
            continue;
        }
        let words = words_of(line);
        for retired in retired {
            if retired.is_in(line, &words) {
                let (word, instead) = (retired.words.join(" "), &retired.instead);
                let place = if retired.begins_comment { " at the beginning of a comment" } else { "" };
                let message = format!(
                    "`{word}`{place} is retired: say {instead} ({PAGE}, “{}”)",
                    RETIRED.trim_matches(['#', ' '])
                );
                findings.push(Finding::error(&file.path, index + 1, message));
            }
        }
    }
    findings
}

impl Retired {
    /// Whether it stands in a line, which has these words.
    fn is_in(&self, line: &str, words: &[String]) -> bool {
        if !self.begins_comment {
            return words.windows(self.words.len()).any(|some| some == self.words);
        }
        // A small letter goes on with the sentence of the line before.
        let text =
            line.trim_start().strip_prefix(COMMENT).map(|text| text.trim_start_matches(['/', '!', ' ']));
        text.is_some_and(|text| text.starts_with(char::is_uppercase)) && words.starts_with(&self.words)
    }

    fn is_gone_from(&self, path: &str) -> bool {
        let is_in = |place: &String| {
            path.strip_prefix(place.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.places.is_empty() || self.places.iter().any(is_in)
    }
}

fn retired(cells: &[String]) -> Option<Retired> {
    let [words, instead, places] = cells else { return None };
    let places = match places.as_str() {
        EVERYWHERE => Vec::new(),
        places => places.split(',').map(|place| place.trim().trim_matches('`').to_owned()).collect(),
    };
    let begins_comment = words.starts_with(COMMENT);
    Some(Retired { words: words_of(words), begins_comment, instead: instead.clone(), places })
}

/// The rows of the first table under a heading, without its head: the line of each, and its cells without marks.
fn table(page: &str, heading: &str) -> Vec<(usize, Vec<String>)> {
    let lines = page.lines().enumerate().skip_while(|(_, line)| *line != heading).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with('#'));
    let rows =
        section.skip_while(|(_, line)| !line.starts_with('|')).take_while(|(_, line)| line.starts_with('|'));
    rows.skip(2).map(|(index, line)| (index + 1, cells(line))).collect()
}

fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split('|').map(|cell| cell.trim().replace("**", "")).collect()
}

/// The words of a line in small letters; names are taken apart: `FarMemory` and `far_memory` are two words.
fn words_of(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in line.chars() {
        if c.is_alphanumeric() {
            let begins = !before.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase());
            if begins {
                words.push(String::new());
            }
            words.last_mut().expect("the first letter begins a word").extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_TEXT: &str = "# A\n\n## The words\n\n| word | is |\n|---|---|\n| **path** | how bytes go |\n\n\
        ### Words that are gone\n\n| not | but | where |\n|---|---|---|\n| gizmo | range | everywhere |\n\
        | way home | direct path | `docs`, `crates/a` |\n\n## Next\n";

    fn found(page: &str, path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(PAGE, page), (path, text)]))
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn retired_words_are_found_in_names_and_prose() {
        for text in ["// A gizmo of it.\n", "struct CopyGizmo;\n", "let gizmo_len = 1;\n", "\"Gizmo\"\n"] {
            let found = found(PAGE_TEXT, "crates/b/src/x.rs", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains("say range"), "{found:?}");
        }
        assert_eq!(found(PAGE_TEXT, "crates/b/src/x.rs", "// It gizmos far.\n"), [""; 0]);
    }

    #[test]
    fn a_word_is_gone_from_the_places_that_are_listed() {
        let text = "The way home is long.\n";
        assert_eq!(found(PAGE_TEXT, "docs/x.md", text).len(), 1);
        assert_eq!(found(PAGE_TEXT, "crates/a/src/x.rs", text).len(), 1);
        assert_eq!(found(PAGE_TEXT, "crates/ab/src/x.rs", text), [""; 0]);
    }

    #[test]
    fn some_words_are_gone_from_the_beginning_of_comments_only() {
        let page = PAGE_TEXT.replace("| gizmo | range | everywhere |", "| // the same | what | everywhere |");
        for text in ["/// The same for two.\n", "//! The same.\n", "    // The same again.\n"] {
            assert_eq!(found(&page, "crates/b/src/x.rs", text).len(), 1, "{text}");
        }
        for text in
            ["/// It is the same.\n", "/// the same as before.\n", "x(); // The same\n", "The same.\n"]
        {
            assert_eq!(found(&page, "crates/b/src/x.rs", text), [""; 0]);
        }
    }

    #[test]
    fn the_glossary_is_short_and_agrees_with_itself() {
        let twice = PAGE_TEXT.replace("| **path** | how bytes go |", "| path | a |\n| path | b |");
        assert_eq!(found(&twice, "x.md", "").len(), 1);
        let retired = PAGE_TEXT.replace("**path**", "**gizmo**");
        assert!(found(&retired, "x.md", "").iter().any(|finding| finding.contains("and retired")));
        let many: String = (0..=WORDS_MAX).map(|number| format!("| w{number} | a |\n")).collect();
        let many = PAGE_TEXT.replace("| **path** | how bytes go |\n", &many);
        assert_eq!(found(&many, "x.md", "").len(), 1);
        assert!(!found("# A\n", "x.md", "").is_empty());
    }
}
