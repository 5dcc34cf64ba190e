//! What can be checked of a step of a flow to which no call leads: by what the work gets there, and that a function that is drawn
//! has left it there.
//!
//! Between such a step and the one before lie turns of an event loop, the kernel, or another thread. These are drawn as one mark,
//! and no file of theirs counts as entered again; so the marks are counted instead.

use super::source::find_word;

/// How often the work of one flow may be left for others to take up.
pub(super) const MOST: usize = 12;

/// By what work gets from one step to the next, as the text of a step names it, and with what a function leaves it there. The
/// kernel, a clock and compiled code need nothing to be left.
const MEANS: &[(&str, &[&str])] = &[
    ("link", SENDS),
    ("agents", SENDS),
    ("queue", LEAVES),
    ("outbox", LEAVES),
    ("list", LEAVES),
    ("kept", LEAVES),
    ("mark", &["= true", "|="]),
    ("kernel", &[]),
    ("clock", &[]),
    ("compiled code", &[]),
];
const SENDS: &[&str] = &[".send", "send_", ".commit(", ".flush(", ".push", ".write("];
const LEAVES: &[&str] = &[".push", ".insert(", ".extend", ".set(", ".tell(", ".post("];

/// A function that is drawn, and its bodies.
pub(super) type Drawn<'a> = (&'a str, &'a [String]);

/// Why the work is not handed over to a step as its text says. `earlier` are the steps before it, of which the last `recent` come
/// after the last time that it was handed over. The text may name the function that has left the work, in backquotes.
pub(super) fn check(text: &str, earlier: &[Drawn<'_>], recent: usize) -> Result<(), String> {
    let named: Vec<_> = MEANS.iter().filter(|(means, _)| !find_word(text, means).is_empty()).collect();
    if named.is_empty() {
        let means: Vec<&str> = MEANS.iter().map(|(means, _)| *means).collect();
        return Err(format!("say who hands it over, and by what: {}", means.join(", ")));
    }
    let leaver = text.split('`').nth(1);
    let candidates: Vec<&Drawn<'_>> = match leaver {
        Some(name) => earlier.iter().filter(|(function, _)| *function == name).collect(),
        None => earlier[earlier.len() - recent..].iter().collect(),
    };
    let has = |word: &str| candidates.iter().any(|(_, bodies)| bodies.iter().any(|body| body.contains(word)));
    let is_left = |words: &[&str]| words.is_empty() || words.iter().any(|word| has(word));
    if named.iter().any(|(_, words)| is_left(words)) {
        return Ok(());
    }
    let means = named[0].0;
    Err(match leaver {
        Some(name) => format!("`{name}`, as it is drawn before, leaves nothing for the {means}"),
        None => format!(
            "no step since the last hand-over leaves anything for the {means}: draw the one that does"
        ),
    })
}
