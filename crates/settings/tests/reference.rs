//! The page about configuration says what the code does.

use std::fs;
use std::path::Path;

const BEGIN: &str =
    "<!-- The tables are checked by a test; `BLESS=1 cargo test -p outboard-settings` writes them. -->\n";

#[test]
fn the_page_lists_all_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, tables) = page.split_once(BEGIN).expect("the page has the mark before its tables");
    let expected = format!("\n{}", outboard_settings::reference());
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{expected}")).unwrap();
    } else {
        assert_eq!(tables, expected, "BLESS=1 cargo test -p outboard-settings writes docs/configuration.md");
    }
}

#[test]
fn the_example_of_the_page_is_a_configuration() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = fs::read_to_string(path).unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let file = std::env::temp_dir().join(format!("outboard-example-{}.toml", std::process::id()));
    fs::write(&file, example).unwrap();
    let loaded = outboard_settings::Configuration::load(&outboard_settings::Inputs::empty().config(&file));
    fs::remove_file(&file).unwrap();
    assert_eq!(loaded.unwrap_or_else(|error| panic!("{error}")).settings.agent.workers, 4.into());
}
