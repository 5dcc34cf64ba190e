//! Manual pages of section 3, made of the header: what its comments say of each function, constant and structure.

use std::path::Path;

use anyhow::{Context, Result};

/// A page: its name, what it is about, and the files of crates/c whose functions it has.
pub(crate) struct Page {
    pub(crate) name: &'static str,
    about: &'static str,
    files: &'static [&'static str],
}

pub(crate) const PAGES: &[Page] = &[
    Page {
        name: "outboard",
        about: "daemons, statuses and the texts of errors",
        files: &["status", "arguments", "daemons"],
    },
    Page { name: "outboard_job", about: "the ranks of a job", files: &["job"] },
    Page { name: "outboard_far", about: "memory of other machines behind plain pointers", files: &["far"] },
    Page {
        name: "outboard_mapping",
        about: "regions of far memory at addresses",
        files: &["mapping", "bytes"],
    },
    Page {
        name: "outboard_memory",
        about: "regions of a memory server, by calls",
        files: &["memory", "region"],
    },
    Page { name: "outboard_messenger", about: "small messages between ranks", files: &["messenger"] },
    Page {
        name: "outboard_caller",
        about: "functions that run beside the data",
        files: &["caller", "function"],
    },
    Page { name: "outboard_writer", about: "remote writes that choose their path", files: &["writer"] },
];

/// Something that the header declares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: String,
    /// Its declaration, as it stands there.
    code: String,
    /// What the comment before it says.
    comment: Vec<String>,
    pub(crate) is_function: bool,
}

/// What the header declares, in its order.
pub(crate) fn items(header: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut comment = Vec::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        if let Some(said) = line.strip_prefix("//") {
            comment.push(said.trim().to_owned());
            continue;
        }
        let comment = std::mem::take(&mut comment);
        if comment.is_empty() {
            continue;
        }
        let mut code = line.to_owned();
        while !is_whole(&code) {
            let Some(line) = lines.next() else { break };
            code += "\n";
            code += line;
        }
        let is_function = !code.starts_with("typedef") && !code.starts_with('#');
        items.extend(name_of(&code).map(|name| Item { name, code, comment, is_function }));
    }
    items
}

/// Whether a declaration has its end.
fn is_whole(code: &str) -> bool {
    match code {
        code if code.starts_with("#define ") => true,
        code if code.contains('{') => code.lines().last().is_some_and(|line| line.starts_with('}')),
        code => code.ends_with(';'),
    }
}

/// What a declaration is about: what stands before the parameters, behind `#define`, or at the end.
fn name_of(code: &str) -> Option<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let text = match code {
        code if code.starts_with("#define ") => code.split_whitespace().nth(1)?,
        code if code.contains("(*") => code.split_once("(*")?.1.split(')').next()?,
        code if code.contains('{') => code.rsplit_once('}')?.1,
        code if code.starts_with("typedef") => code.rsplit_once(' ')?.1,
        code => code.split_once('(')?.0.rsplit([' ', '*']).next()?,
    };
    let name = text.trim_matches(|c: char| !is_name(c));
    (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned())
}

/// Whether one of these files of crates/c defines a name.
fn defines(root: &Path, files: &[&str], name: &str) -> Result<bool> {
    for file in files {
        let path = root.join("crates/c/src").join(format!("{file}.rs"));
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let heads = ["fn ", "pub const ", "pub struct ", "pub type "];
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_there = |head: &&str| {
            let word = format!("{head}{name}");
            text.match_indices(&word).any(|(at, _)| ends(&text[at + word.len()..]))
        };
        if heads.iter().any(is_there) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// All pages: their file names and texts. A function's page refers to that of its group.
pub(crate) fn pages(root: &Path, header: &str, version: &str) -> Result<Vec<(String, String)>> {
    let items = items(header);
    let mut pages = Vec::new();
    for page in PAGES {
        let mut own = Vec::new();
        for item in &items {
            if defines(root, page.files, &item.name)? {
                own.push(item);
            }
        }
        for item in own.iter().filter(|item| item.is_function) {
            pages.push((format!("{}.3", item.name), format!(".so man3/{}.3\n", page.name)));
        }
        pages.push((format!("{}.3", page.name), text_of(page, &own, version)));
    }
    Ok(pages)
}

fn text_of(page: &Page, items: &[&Item], version: &str) -> String {
    let title = page.name.to_uppercase();
    let mut text = format!(
        ".TH {title} 3 \"\" \"outboard {version}\" \"Outboard for C\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.nf\n#include <outboard.h>\n",
        page.name, page.about
    );
    for item in items.iter().filter(|item| item.is_function) {
        text += &format!("\n{}\n", code(&item.code));
    }
    text += "\n.fi\nCompile and link with\n.BR \"pkg-config --cflags --libs outboard\" .\n.SH DESCRIPTION\n";
    for item in items.iter().filter(|item| item.is_function) {
        text += &format!(".SS {}()\n{}", item.name, prose(&item.comment));
    }
    let others: Vec<_> = items.iter().filter(|item| !item.is_function).collect();
    if !others.is_empty() {
        text += ".SH \"TYPES AND CONSTANTS\"\n";
    }
    for item in others {
        text += &format!("{}.PP\n.nf\n{}\n.fi\n", prose(&item.comment), code(&item.code));
    }
    text += ".SH \"RETURN VALUE\"\nA status: OUTBOARD_OK, or a number that\n.BR outboard (3)\nlists, of which outboard_last_error() has the reason as a \
             text. Functions that give a text return that.\n.SH \"SEE ALSO\"\n";
    let others: Vec<String> = PAGES
        .iter()
        .filter(|other| other.name != page.name)
        .map(|other| format!(".BR {} (3)", other.name))
        .collect();
    text + &others.join(" ,\n") + "\n"
}

/// Code as it stands.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Paragraphs, and a list of those lines that begin with the name of an argument.
fn prose(comment: &[String]) -> String {
    let mut text = String::new();
    for line in comment {
        let escaped = line.replace('\\', "\\e");
        let escaped = if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped };
        match escaped.split_once(": ") {
            _ if line.is_empty() => text += ".PP\n",
            Some(("Threads", rest)) => text += &format!(".PP\nThreads: {rest}\n"),
            Some((names, rest)) if are_arguments(names) => text += &format!(".TP\n.I {names}\n{rest}\n"),
            _ => text += &format!("{escaped}\n"),
        }
    }
    text
}

/// Whether words before a colon are names of arguments.
fn are_arguments(names: &str) -> bool {
    names.split(", ").all(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\
#ifndef X
#define X
// It is done.
#define OUTBOARD_OK 0

// A thing.
typedef struct outboard_thing outboard_thing;

// Some bytes.
typedef struct outboard_span {
    // Where.
    size_t start;
} outboard_span;

// Told.
typedef void (*outboard_handler)(void *context,
                                 size_t length);

// Does it.
//
// thing, count: which.
//
// Threads: any.
outboard_status outboard_do(struct outboard_thing *thing,
                            size_t count);

// Says it.
const char *outboard_text(void);
#endif
";

    #[test]
    fn every_declaration_is_found_with_its_comment() {
        let items = items(HEADER);
        let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "OUTBOARD_OK",
                "outboard_thing",
                "outboard_span",
                "outboard_handler",
                "outboard_do",
                "outboard_text"
            ]
        );
        let functions: Vec<bool> = items.iter().map(|item| item.is_function).collect();
        assert_eq!(functions, [false, false, false, false, true, true]);
        assert_eq!(items[0].comment, ["It is done."]);
        assert!(items[2].code.ends_with("} outboard_span;"), "{}", items[2].code);
        assert!(items[4].code.contains("size_t count"), "{}", items[4].code);
    }

    #[test]
    fn arguments_are_a_list_and_threads_a_paragraph() {
        let items = items(HEADER);
        let text = prose(&items[4].comment);
        assert_eq!(text, "Does it.\n.PP\n.TP\n.I thing, count\nwhich.\n.PP\n.PP\nThreads: any.\n");
    }

    #[test]
    fn every_function_of_the_header_is_on_a_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let header = std::fs::read_to_string(root.join(crate::header::HEADER)).unwrap();
        let pages = pages(root, &header, "1.2.3").unwrap();
        for item in super::items(&header) {
            let is_on = |(_, text): &&(String, String)| text.contains(&code(&item.code));
            assert_eq!(pages.iter().filter(is_on).count(), 1, "{}", item.name);
            let has_own = pages.iter().any(|(name, _)| *name == format!("{}.3", item.name));
            assert!(has_own || !item.is_function, "{}", item.name);
        }
    }
}
