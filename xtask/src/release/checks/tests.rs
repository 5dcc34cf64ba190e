use serde_json::json;

use super::*;

const MANIFEST: &str =
    "[workspace]\nresolver = \"3\"\n\n[workspace.package]\nversion = \"0.2.0\"\nedition = \"2024\"\n";

fn sources() -> Sources {
    Sources {
        manifest: MANIFEST.to_owned(),
        changelog: String::new(),
        policy: "speaks version 2 of the wire".to_owned(),
        wire: "    pub const NEWEST: u16 = 2;".to_owned(),
        lock: String::new(),
        status: String::new(),
        tags: "v0.1.0\nv0.1.1\nvnonsense\n".to_owned(),
        packages: Vec::new(),
        contents: Vec::new(),
    }
}

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

#[test]
fn a_version_is_three_numbers() {
    assert_eq!(v("10.0.3").to_string(), "10.0.3");
    for wrong in ["1.2", "1.2.3.4", "1.2.x", "v1.2.3", "1..3", "01.2.3", "1.2.3-beta", ""] {
        assert!(wrong.parse::<Version>().unwrap_err().contains("such as 0.2.0"), "{wrong}");
    }
}

#[test]
fn the_version_is_the_manifests_and_newer_than_all_releases() {
    assert_eq!(version(&sources(), v("0.2.0")).unwrap(), "0.2.0, after 0.1.1");
    assert!(version(&sources(), v("0.3.0")).unwrap_err().contains("Cargo.toml says 0.2.0"));
    let released = Sources { tags: "v0.2.0".to_owned(), ..sources() };
    assert!(version(&released, v("0.2.0")).unwrap_err().contains("released already"));
    assert!(version_of_manifest("[package]\nversion = \"1.0.0\"").is_err());
}

#[test]
fn the_changelog_tells_of_the_version_or_of_what_becomes_it() {
    let text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- one\n- two\n\n## [0.1.0]\n\n- old\n";
    assert!(changelog(text, v("0.2.0")).unwrap().starts_with("2 entries under [Unreleased]"));
    assert!(changelog(text, v("0.1.0")).unwrap().starts_with("1 entries under [0.1.0]"));
    assert!(changelog("# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n- old\n", v("0.2.0")).is_err());
    assert!(changelog("# Changelog\n", v("0.2.0")).is_err());
}

#[test]
fn the_page_about_versions_says_what_the_wire_speaks() {
    assert_eq!(wire(&sources()).unwrap(), "version 2 of the wire");
    let changed = Sources { wire: "const NEWEST: u16 = 3;".to_owned(), ..sources() };
    assert!(wire(&changed).unwrap_err().contains("version 3"));
    assert!(wire(&Sources { wire: String::new(), ..sources() }).unwrap_err().contains("NEWEST"));
}

#[test]
fn the_policy_speaks_of_all_that_people_rely_on() {
    assert!(policy("the library, the command line, the wire and Rust").is_ok());
    assert!(policy("the library and Rust").unwrap_err().contains("the command line, the wire"));
}

#[test]
fn a_changed_tree_is_named() {
    assert!(tree("").is_ok());
    assert!(tree(" M README.md\n?? x\n").unwrap_err().contains("2 files are changed"));
}

#[test]
fn packages_for_people_say_what_they_are() {
    let package = |name: &str| {
        json!({"name": name, "description": "d", "license": "MIT", "readme": "README.md", "keywords": ["k"],
               "categories": ["c"], "rust_version": "1.88"})
    };
    let mut packages: Vec<Value> = FOR_PEOPLE.iter().map(|name| package(name)).collect();
    assert!(metadata(&packages).is_ok());
    packages[1]["keywords"] = json!([]);
    packages[2]["readme"] = Value::Null;
    let missing = metadata(&packages).unwrap_err();
    assert!(
        missing.contains("outboard-cli: keywords") && missing.contains("outboard-bench: readme"),
        "{missing}"
    );
    assert!(metadata(&packages[..1]).is_err());
}

#[test]
fn packages_have_one_public_address_or_none() {
    let at = |addresses: &[Value]| {
        address(&addresses.iter().map(|address| json!({ "repository": address })).collect::<Vec<_>>())
    };
    assert!(
        at(&[Value::Null, Value::Null]).unwrap().starts_with("none: the packages name no public address")
    );
    let place = json!("https://example.org/outboard");
    assert_eq!(at(&[place.clone(), place.clone()]).unwrap(), "https://example.org/outboard");
    assert!(at(&[place.clone(), Value::Null]).unwrap_err().contains("differs"));
    assert!(at(&[json!("git@example.org")]).unwrap_err().contains("https://"));
}

#[test]
fn the_lock_file_has_the_version() {
    let package = |name: &str, version: &str, more: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{more}\n")
    };
    let other = package("outboards", "9.9.9", "source = \"elsewhere\"\n");
    let fine = package("outboard", "0.2.0", "") + &package("outboard-wire", "0.2.0", "") + &other;
    assert_eq!(lock(&fine, v("0.2.0")).unwrap(), "2 packages of 0.2.0");
    assert!(
        lock(&(fine + &package("outboard-cli", "0.1.0", "")), v("0.2.0")).unwrap_err().contains("1 packages")
    );
    assert!(lock(&other, v("0.2.0")).is_err());
}

#[test]
fn a_package_contains_its_source_and_nothing_else() {
    let package =
        |files: &[&str]| vec![("p".to_owned(), files.iter().map(|file| (*file).to_owned()).collect())];
    assert!(contents(&package(&["Cargo.toml", "src/lib.rs", "README.md", ".cargo_vcs_info.json"])).is_ok());
    assert!(contents(&package(&["src/lib.rs", "core.1234"])).unwrap_err().contains("p: core.1234"));
    assert!(contents(&package(&["Cargo.toml"])).unwrap_err().contains("no source"));
}
