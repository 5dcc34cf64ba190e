use super::*;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    check(&Tree::of(files)).into_iter().map(|finding| finding.to_string()).collect()
}

const LIB: &str = "mod work;\npub use work::{Work, Failure};\n#[doc(hidden)]\npub use work::Inner;\n";

/// What is found in a file of the library.
fn in_work(text: &str) -> Vec<String> {
    found(&[("crates/outboard/src/lib.rs", LIB), ("crates/outboard/src/work.rs", text)])
}

#[test]
fn what_is_exported_standard_or_a_parameter_can_be_named() {
    let work = "
        use std::io;
        pub enum Failure { Io(io::Error), Other(Box<dyn std::error::Error + Send + Sync>) }
        pub struct Work<T> { pub left: Vec<T>, inner: Inner }
        impl<T: Copy> Work<T> {
            pub fn next<F: FnMut(T) -> bool>(&mut self, ask: F) -> Result<Option<T>, Failure> { ask.go(Inner) }
            fn inner(&self) -> Inner {}
        }";
    assert_eq!(in_work(work), [""; 0]);
}

#[test]
fn every_place_of_a_type_is_seen() {
    for shown in [
        "pub struct Work { pub inner: Inner }",
        "pub enum Failure { Of(Vec<Inner>) }",
        "pub enum Failure { Of { inner: Inner } }",
        "impl Work { pub fn inner(&self) -> Option<&Inner> { None } }",
        "impl Work { pub fn set(&mut self, inner: [Inner; 3]) {} }",
        "impl Work { pub fn with(&mut self, change: impl FnOnce(&mut Inner)) {} }",
        "impl Work { pub fn of<T: Inner>(inner: T) {} }",
        "impl Work { pub const FIRST: Inner = Inner; }",
        "impl From<Inner> for Work { fn from(inner: Inner) -> Self {} }",
        "impl std::str::FromStr for Work { type Err = Inner; }",
        "pub trait Work: inner::Inner {}",
        "pub trait Work { fn inner(&self) -> Inner; }",
        "pub type Work = Vec<Inner>;",
        "use serde::Value;\nimpl Work { pub fn inner(&self) -> Value {} }",
        "impl Work { pub fn inner(&self) -> serde::Inner {} }",
    ] {
        let text = format!("pub struct Work;\npub enum Failure {{}}\n{shown}\n");
        assert_eq!(in_work(&text).len(), 1, "{shown}: {:?}", in_work(&text));
    }
}

#[test]
fn what_users_do_not_meet_is_free() {
    for hidden in [
        "pub struct Work { inner: Inner }",
        "pub struct Work { #[doc(hidden)] pub inner: Inner }",
        "impl Work { #[doc(hidden)] pub fn inner(&self) -> Inner {} }",
        "impl Iterator for Work { #[doc(hidden)] type Item = Inner; }",
        "pub trait Failure { #[doc(hidden)] type Inside: Inner; #[doc(hidden)] fn inner(&self) -> Inner; }",
        "impl Work { pub(crate) fn inner(&self) -> Inner { let inner: Inner = Inner; } }",
        "impl Inner { pub fn inner(&self) -> Inner {} }",
        "mod deep { #[cfg(test)] mod tests { impl super::Work { pub fn inner(&self) -> Inner {} } } }",
        "pub struct Other { pub inner: Inner }",
    ] {
        let text = format!("pub struct Work;\npub enum Failure {{}}\n{hidden}\n");
        assert_eq!(in_work(&text), [""; 0], "{hidden}");
    }
}

#[test]
fn exported_types_of_other_rooms_are_looked_at_by_their_names_there() {
    let lib = "mod work;\npub use work::Site;\npub use zerocopy;\n";
    let work = "pub use outboard_steering::Place as Site;\n";
    let place = "use zerocopy::IntoBytes;\nuse crate::Time;\npub struct Place<T: IntoBytes> { pub since: Time, of: T }\n";
    let files = [
        ("crates/outboard/src/lib.rs", lib),
        ("crates/outboard/src/work.rs", work),
        ("crates/steering/src/place.rs", place),
        ("crates/other/src/place.rs", "struct Place { pub since: Time }\n"),
    ];
    let found = found(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("steering/src/place.rs:3") && found[0].contains("`Time`"), "{found:?}");
}
