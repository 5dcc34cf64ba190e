//! Small faults in the machines, made on purpose: `cargo xtask mutants` shows that a test or the simulator notices each.

/// Whether the fault of this name was chosen. Its name is `room.what-is-wrong`, and stands at one place in the workspace.
///
/// Always `false`, and nothing is left of the question, unless the build has `--cfg mutants`; then the variable
/// `OUTBOARD_MUTANT` names the one fault of this process.
#[cfg(not(mutants))]
#[inline(always)]
pub const fn mutant(_name: &str) -> bool {
    false
}

/// Whether the fault of this name was chosen by `OUTBOARD_MUTANT`. Its name is `room.what-is-wrong`, and stands at one place in
/// the workspace.
#[cfg(mutants)]
pub fn mutant(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("OUTBOARD_MUTANT").ok()).as_deref() == Some(name)
}
