//! The flows that ARCHITECTURE.md draws exist as they are drawn, and are short.
//!
//! A flow is a fenced block, ```` ```flow NAME ````, with a step on each line: `MARK path function text`. No mark: the function of
//! the step before calls this one. `<`: control returns to a function that an earlier step named. `~`: a link, a queue, the
//! kernel or another thread hands the work over, and the text says which ([`hand_overs`]).

use std::collections::BTreeMap;

use super::Finding;
use super::hand_overs::{self, Drawn};
use super::source::{Source, find_word};
use super::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";
/// The flows that the page has to draw.
const FLOWS: &[&str] = &["A page by the agent", "A message", "A message by agents", "A write", "A call"];
/// How many files a flow may pass, and how often it may come back to one of them.
const FILES_MAX: usize = 15;
const RETURNS_MAX: usize = 2;

/// How a step follows from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Call,
    Return,
    HandOver,
}

/// One line of a flow.
#[derive(Debug)]
struct Step<'a> {
    line: usize,
    mark: Mark,
    path: &'a str,
    function: &'a str,
    text: &'a str,
}

/// A flow as it is drawn.
#[derive(Debug)]
struct Flow<'a> {
    name: &'a str,
    line: usize,
    steps: Vec<Step<'a>>,
}

/// How long a flow is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Measure {
    pub(super) name: String,
    pub(super) steps: usize,
    pub(super) files: usize,
    /// How often the file that is entered again most often is entered again.
    pub(super) returns: usize,
    /// How often no call leads on, but an event loop, the kernel or another thread.
    pub(super) hand_overs: usize,
}

/// Checks every flow of the page.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let flows = match flows(page(tree)) {
        Ok(flows) => flows,
        Err(finding) => return vec![finding],
    };
    for name in FLOWS.iter().filter(|name| !flows.iter().any(|flow| flow.name == **name)) {
        let message = format!("no block “```flow {name}”: draw it as a list of files and functions");
        findings.push(Finding::error(PAGE, 1, message));
    }
    for flow in &flows {
        let bodies: Vec<Vec<String>> = flow.steps.iter().map(|step| bodies(tree, step)).collect();
        let drawn = flow.steps.iter().zip(&bodies).map(|(step, bodies)| (step.function, &bodies[..]));
        let drawn: Vec<Drawn<'_>> = drawn.collect();
        for (index, step) in flow.steps.iter().enumerate() {
            if let Err(message) = follows(flow, index, &drawn) {
                findings.push(Finding::error(PAGE, step.line, message));
            }
        }
        findings.extend(too_long(flow));
    }
    findings
}

/// How long each flow of the page is.
pub(super) fn measure(tree: &Tree) -> Vec<Measure> {
    flows(page(tree)).unwrap_or_default().iter().map(Flow::measure).collect()
}

fn page(tree: &Tree) -> &str {
    tree.get(PAGE).and_then(|file| file.text.as_deref()).unwrap_or("")
}

/// Why a step does not follow from what stands before it.
fn follows(flow: &Flow<'_>, index: usize, drawn: &[Drawn<'_>]) -> Result<(), String> {
    let step = &flow.steps[index];
    let Step { path, function, .. } = step;
    let (earlier, (_, bodies)) = (&drawn[..index], drawn[index]);
    if bodies.is_empty() {
        return Err(format!("{path} has no function `{function}` with a body: draw the flow as it is"));
    }
    match (step.mark, earlier.last()) {
        (Mark::Call, None) => Ok(()),
        (_, None) => Err("the first step follows from nothing: give it no mark".to_owned()),
        (Mark::Call, Some((caller, bodies))) => {
            let name = function.rsplit("::").next().unwrap_or(function);
            if bodies.iter().any(|body| !find_word(body, name).is_empty()) {
                return Ok(());
            }
            Err(format!(
                "`{caller}` does not call `{name}`: name the step between them, or mark it `<` or `~`"
            ))
        }
        (Mark::Return, _) => {
            let named = |earlier: &Step<'_>| (earlier.path, earlier.function) == (step.path, step.function);
            if flow.steps[..index].iter().any(named) {
                return Ok(());
            }
            Err(format!("no step before names `{function}` in {path}, so control cannot return to it"))
        }
        (Mark::HandOver, _) => {
            let recent = flow.steps[..index].iter().rev().take_while(|step| step.mark != Mark::HandOver);
            hand_overs::check(step.text, earlier, (recent.count() + 1).min(index))
        }
    }
}

fn too_long(flow: &Flow<'_>) -> Vec<Finding> {
    let Measure { name, files, hand_overs, .. } = flow.measure();
    let mut findings = Vec::new();
    if hand_overs > hand_overs::MOST {
        let most = hand_overs::MOST;
        let message =
            format!("“{name}” is handed over {hand_overs} times, at most {most}: let calls lead on");
        findings.push(Finding::error(PAGE, flow.line, message));
    }
    if files > FILES_MAX {
        let message =
            format!("“{name}” passes {files} files, at most {FILES_MAX}: fold the steps that only hand over");
        findings.push(Finding::error(PAGE, flow.line, message));
    }
    for (path, returns) in flow.returns().into_iter().filter(|(_, returns)| *returns > RETURNS_MAX) {
        let message = format!(
            "“{name}” comes back to {path} {returns} times, at most {RETURNS_MAX}: put together what belongs together"
        );
        findings.push(Finding::error(PAGE, flow.line, message));
    }
    findings
}

impl Flow<'_> {
    fn measure(&self) -> Measure {
        let returns = self.returns();
        Measure {
            name: self.name.to_owned(),
            steps: self.steps.len(),
            files: returns.len(),
            returns: returns.values().copied().max().unwrap_or(0),
            hand_overs: self.steps.iter().filter(|step| step.mark == Mark::HandOver).count(),
        }
    }

    /// For every file, how often it is entered again after the flow has left it.
    fn returns(&self) -> BTreeMap<&str, usize> {
        let mut returns = BTreeMap::new();
        let mut here = "";
        for step in self.steps.iter() {
            if step.path != here {
                returns.entry(step.path).and_modify(|count| *count += 1).or_insert(0);
                here = step.path;
            }
        }
        returns
    }
}

/// The bodies of the functions that a step names; several have one name where a trait or two types have it.
fn bodies(tree: &Tree, step: &Step<'_>) -> Vec<String> {
    let Some(text) = tree.get(step.path).and_then(|file| file.text.as_deref()) else { return Vec::new() };
    let source = Source::new(text);
    let lines: Vec<&str> = source.code.lines().collect();
    let name = step.function.rsplit("::").next().unwrap_or(step.function);
    let named = source.functions().into_iter().filter(|function| function.name == name);
    // Without its head, where its own name stands.
    named.map(|function| body(&lines[function.line_first - 1..function.line_last].join("\n"))).collect()
}

fn body(function: &str) -> String {
    function.split_once('{').map_or("", |(_, body)| body).to_owned()
}

/// Reads the flows of the page.
fn flows(page: &str) -> Result<Vec<Flow<'_>>, Finding> {
    let mut flows: Vec<Flow<'_>> = Vec::new();
    let mut inside = false;
    for (index, text) in page.lines().enumerate() {
        let line = index + 1;
        match text.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(kind) => {
                if let Some(name) = kind.strip_prefix("flow ") {
                    inside = true;
                    flows.push(Flow { name, line, steps: Vec::new() });
                }
            }
            None if inside && !text.trim().is_empty() => {
                let step = step(text, line).ok_or_else(|| {
                    Finding::error(
                        PAGE,
                        line,
                        "a step is `path function text`, with `<` or `~` before it where needed",
                    )
                })?;
                if let Some(flow) = flows.last_mut() {
                    flow.steps.push(step);
                }
            }
            None => {}
        }
    }
    Ok(flows)
}

fn step(text: &str, line: usize) -> Option<Step<'_>> {
    let text = text.trim();
    let (mark, rest) = match (text.strip_prefix('<'), text.strip_prefix('~')) {
        (Some(rest), _) => (Mark::Return, rest),
        (_, Some(rest)) => (Mark::HandOver, rest),
        _ => (Mark::Call, text),
    };
    let (path, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let (function, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_step = path.ends_with(".rs") && !function.is_empty();
    is_step.then(|| Step { line, mark, path, function, text: text.trim_start() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (&str, &str) = ("a/src/a.rs", "fn start() {\n    middle(1);\n}\nfn later() { end() }\n");
    const B: (&str, &str) =
        ("b/src/b.rs", "impl B {\n    fn middle() { /* end */ queue.push(1) }\n}\nfn end() {}\n");

    fn all_messages(page: &str) -> Vec<String> {
        check(&Tree::of(&[(PAGE, page), A, B])).into_iter().map(|finding| finding.message).collect()
    }

    /// Without those about flows that are missing.
    fn messages(steps: &str) -> Vec<String> {
        let page = format!("# Page\n\n```flow a thing\n{steps}```\n\n```\n< not a flow\n```\n");
        all_messages(&page).into_iter().filter(|message| !message.contains("no block")).collect()
    }

    #[test]
    fn a_flow_that_is_not_drawn_is_named() {
        assert_eq!(all_messages("").len(), FLOWS.len());
        let page: String =
            FLOWS.iter().map(|name| format!("```flow {name}\na/src/a.rs start\n```\n")).collect();
        assert_eq!(all_messages(&page), [""; 0]);
    }

    #[test]
    fn a_flow_that_is_as_it_is_drawn_passes() {
        let steps = "  a/src/a.rs start\n  b/src/b.rs B::middle queues it\n~ a/src/a.rs later the queue\n  b/src/b.rs end\n";
        assert_eq!(messages(steps), [""; 0]);
        let left =
            "b/src/b.rs middle\n~ a/src/a.rs later the queue\n~ b/src/b.rs end the queue of `middle`\n";
        assert_eq!(messages(left), [""; 0]);
        let returned = "a/src/a.rs start\nb/src/b.rs middle\n< a/src/a.rs start\n";
        assert_eq!(messages(returned), [""; 0]);
    }

    #[test]
    fn what_is_not_so_is_named() {
        let one = |steps: &str, word: &str| {
            let messages = messages(steps);
            assert!(messages.len() == 1 && messages[0].contains(word), "{steps}: {messages:?}");
        };
        one("a/src/a.rs gone\n", "no function `gone`");
        one("c/src/c.rs start\n", "no function `start`");
        one("~ a/src/a.rs start\n", "first step");
        one("a/src/a.rs start\nb/src/b.rs end\n", "does not call `end`");
        // A comment is no call.
        one("b/src/b.rs middle\nb/src/b.rs end\n", "does not call `end`");
        one("a/src/a.rs start\n~ b/src/b.rs end\n", "who hands it over");
        one("a/src/a.rs start\n~ b/src/b.rs end somehow\n", "by what: link");
        one(
            "a/src/a.rs start\n~ b/src/b.rs end by the queue\n",
            "no step since the last hand-over leaves anything",
        );
        one("b/src/b.rs middle\n~ a/src/a.rs later the queue\n~ b/src/b.rs end the list\n", "for the list");
        one("a/src/a.rs start\n~ b/src/b.rs end the list of `start`\n", "`start`, as it is drawn before");
        one("a/src/a.rs start\n< b/src/b.rs end\n", "cannot return");
        one("a/src/a.rs\n", "a step is");
    }

    #[test]
    fn files_and_returns_are_bounded() {
        let files: Vec<(String, String)> =
            (0..16).map(|at| (format!("f{at}.rs"), format!("fn f{at}() {{ f{}() }}", at + 1))).collect();
        let steps: String = (0..16).map(|at| format!("f{at}.rs f{at}\n")).collect();
        let page = format!("```flow long\n{steps}```\n");
        let mut all: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        all.push((PAGE, &page));
        let tree = Tree::of(&all);
        let measured = Measure { name: "long".to_owned(), steps: 16, files: 16, returns: 0, hand_overs: 0 };
        assert_eq!(measure(&tree), [measured]);
        assert!(check(&tree).iter().any(|finding| finding.message.contains("16 files, at most 15")));
        let back = "a/src/a.rs start\nb/src/b.rs middle\n< a/src/a.rs start\nb/src/b.rs middle\n< a/src/a.rs start\n";
        assert_eq!(messages(back), [""; 0]);
        let often = "~ a/src/a.rs start the kernel\n".repeat(13);
        assert!(messages(&format!("a/src/a.rs start\n{often}"))[0].contains("handed over 13 times"));
        let again = format!("{back}b/src/b.rs middle\n< a/src/a.rs start\n");
        assert!(messages(&again)[0].contains("comes back to a/src/a.rs 3 times"));
    }
}
