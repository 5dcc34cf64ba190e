//! The programs on the page of the library.

use std::env;
use std::fs;
use std::path::Path;

/// How blocks of C and C++ begin.
const BLOCKS: [&str; 2] = ["\n```c\n", "\n```cpp\n"];

/// A block of C or C++ on the page is one of the examples, which the page names before it. `BLESS=1` writes it there.
#[test]
fn every_program_on_the_page_is_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = root.join("docs/c.md");
    let page = fs::read_to_string(&place).unwrap();
    let (mut blessed, mut shown, mut rest) = (String::new(), 0, page.as_str());
    while let Some((at, mark)) = BLOCKS.iter().filter_map(|mark| Some((rest.find(mark)?, mark))).min() {
        let (before, block) = rest.split_at(at);
        let (code, after) = block[mark.len()..].split_once("```\n").expect("a block ends");
        blessed += before;
        let named = blessed.rsplit("examples/").next().unwrap();
        let name: String = named.chars().take_while(|c| c.is_alphanumeric() || "._".contains(*c)).collect();
        let example = fs::read_to_string(root.join("crates/c/examples").join(&name));
        let example =
            example.unwrap_or_else(|error| panic!("{name}: {error}; name the example before its block"));
        // Without what is for readers of the file.
        let (_, program) =
            example.split_once("\n\n").expect("the head of an example ends with an empty line");
        if env::var_os("BLESS").is_none() {
            assert_eq!(code, program, "docs/c.md does not show {name} as it is; BLESS=1 writes it");
        }
        blessed += &format!("{mark}{program}```\n");
        shown += 1;
        rest = after;
    }
    blessed += rest;
    assert!(shown > 0, "the page shows no example");
    if env::var_os("BLESS").is_some() && blessed != page {
        fs::write(place, blessed).unwrap();
    }
}
