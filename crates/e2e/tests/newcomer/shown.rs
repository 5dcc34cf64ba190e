//! Whether a command has printed what a page shows, numbers aside.

/// What of the page is not in the output, if anything.
pub(crate) fn missing(page: &[String], output: &str) -> Option<String> {
    let lines: Vec<Vec<String>> = output.lines().map(words).collect();
    let all: Vec<&String> = lines.iter().flatten().collect();
    let mut rest = lines.as_slice();
    for line in page.iter().filter(|line| line.trim() != "…" && !line.trim().is_empty()) {
        let wanted = words(line);
        // Cells break their lines where the numbers in them end.
        if line.starts_with('│') {
            if let Some(word) = wanted.iter().find(|word| !all.contains(word)) {
                return Some(format!("“{word}” of “{line}”"));
            }
            continue;
        }
        let is_cut = line.ends_with('…');
        let found = rest.iter().position(|printed| match is_cut {
            true => printed.starts_with(&wanted),
            false => *printed == wanted,
        });
        match found {
            Some(at) => rest = &rest[at + 1..],
            None => return Some(format!("“{line}”")),
        }
    }
    None
}

/// The words of a line without its numbers, their units, and what draws tables.
fn words(line: &str) -> Vec<String> {
    const UNITS: [&str; 17] = [
        "B", "KiB", "MiB", "GiB", "kB", "MB", "GB", "kB/s", "MB/s", "GB/s", "ns", "µs", "ms", "s", "min",
        "%", "×",
    ];
    let is_drawn = |letter: char| "│┌┐└┘─═╞╡…".contains(letter) || letter.is_whitespace();
    let plain = line.replace("outboard-65534-", "outboard-");
    let words = plain
        .split(is_drawn)
        .map(|word| word.trim_end_matches([',', ';', '.', ':']))
        .filter(|word| !word.is_empty());
    words.filter(|word| !is_number(word) && !UNITS.contains(word)).map(without_digits).collect()
}

/// Whether a word is a number, or one with a unit, or a checksum.
fn is_number(word: &str) -> bool {
    let is_hex = word.len() >= 8 && word.chars().all(|letter| letter.is_ascii_hexdigit());
    word.starts_with(|letter: char| letter.is_ascii_digit()) || is_hex
}

/// A word that may stand beside another number: without its own digits, and in the singular.
fn without_digits(word: &str) -> String {
    word.chars()
        .filter(|letter| !letter.is_ascii_digit())
        .collect::<String>()
        .trim_end_matches('s')
        .to_owned()
}

#[test]
fn numbers_may_differ_and_words_may_not() {
    let page =
        ["wrote it: 12 vertices, in 6.53 s", "…", "│ far memory   11.3 MiB of 34 MiB, dram │", "rank 0 has…"]
            .map(str::to_owned);
    let output = "first\nwrote it: 3 vertices, in 12 ms\n│ far memory   1 GiB of 2 GiB, │\n│              dram      │\nrank 7 has counted";
    assert_eq!(missing(&page, output), None);
    for (word, other) in [("wrote", "has written"), ("vertices", "edges"), ("dram", "far"), ("rank", "node")]
    {
        assert!(missing(&page, &output.replace(word, other)).is_some(), "{word}");
    }
}
