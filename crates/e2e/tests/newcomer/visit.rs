//! Going through a page, command by command.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::helps;
use crate::pages::{self, Shown};
use crate::process::{self, Ended, Running};
use crate::shown;
use crate::tables::{AS_ONE, BEFORE, INSTEAD, LESS, NOT_COMPARED, NOT_RUN, ONCE, OPTIONAL};

/// Goes through all pages of the repository. Returns what did not work.
pub(crate) fn pages(machine: &Path, known: &mut HashMap<String, String>) -> Vec<String> {
    let mut failures = Vec::new();
    for page in pages::all(machine).into_iter().filter(|page| is_wanted(&page.name)) {
        let mut visit = Visit::new(machine, known, &page.name);
        for block in page.blocks() {
            match block.language.as_str() {
                "c" => visit.source = block.text,
                "console" | "sh" => {
                    let place = format!("{}:{}", page.name, block.line);
                    let commands = block.commands();
                    visit.lacks = false;
                    failures.extend(commands.iter().filter_map(|shown| visit.try_out(&place, shown).err()));
                }
                _ => visit.keep_file(&block.text),
            }
        }
        failures.extend(visit.leave());
    }
    failures
}

/// Whether to go through a page: `NEWCOMER_PAGE=kv` is for those who write one.
fn is_wanted(page: &str) -> bool {
    env::var("NEWCOMER_PAGE").is_ok_and(|part| page.contains(&part)) || env::var_os("NEWCOMER_PAGE").is_none()
}

/// Goes through the examples of all `--help` pages. Returns what did not work.
pub(crate) fn helps(machine: &Path, known: &mut HashMap<String, String>) -> Vec<String> {
    let mut failures = Vec::new();
    for page in helps::all(&machine.join("bin/outboard")).into_iter().filter(|page| is_wanted(&page.command))
    {
        let mut visit = Visit::new(machine, known, &page.command);
        let place = format!("outboard {} --help", page.command);
        for command in page.examples {
            let shown = Shown { command, output: Vec::new() };
            visit.lacks = false;
            failures.extend(visit.try_out(&place, &shown).err());
        }
        failures.extend(visit.leave());
    }
    failures
}

/// A newcomer with a page, in a folder that was empty but for some files.
struct Visit<'a> {
    machine: &'a Path,
    /// What commands have printed that are run once.
    known: &'a mut HashMap<String, String>,
    folder: PathBuf,
    /// The C that the page has shown last.
    source: String,
    /// Whether a command of this block was left out for which a program is missing: those after it may need what it makes.
    lacks: bool,
    /// What the page has started, and what it takes for granted: `outboard up`, and daemons of other machines.
    started: Vec<Running>,
    up: Option<Running>,
    elsewhere: Vec<(String, Running)>,
}

impl<'a> Visit<'a> {
    fn new(machine: &'a Path, known: &'a mut HashMap<String, String>, page: &str) -> Self {
        let folder = machine.join("home").join(format!("page-{}", page.replace(['/', ' ', '.'], "-")));
        let mut visit = Self {
            machine,
            known,
            folder,
            source: String::new(),
            lacks: false,
            started: Vec::new(),
            up: None,
            elsewhere: Vec::new(),
        };
        fs::create_dir(&visit.folder).unwrap();
        let prepare = "cp -r ../../files/. . && ln -s ../../target ../../crates . && gzip -k soc-LiveJournal1.txt && \
            mkdir -p srv/graphs/web && echo bytes > srv/graphs/web/edges.bin && outboard bpf asm sum.asm --output sum.o && \
            outboard graph generate --scale 8 srv/graphs/web.graph";
        visit.must(prepare);
        if let Some((_, before)) = BEFORE.iter().find(|(known, _)| *known == page) {
            visit.surround(before);
            visit.must(before);
        }
        visit
    }

    /// Does what has to work before the page begins.
    fn must(&mut self, command: &str) {
        let ended = Running::start(self.shell(&format!("set -e; {command}"))).end();
        assert_eq!(ended.code, Some(0), "{command}: {}", ended.text);
    }

    /// A shell of the newcomer.
    fn shell(&self, command: &str) -> Command {
        let path = env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&self.folder).env("HOME", &self.folder);
        shell.env("PATH", format!("{}:{path}", self.machine.join("bin").display()));
        // All machines of this cluster know it, and so do those that the pages make.
        shell.env("OUTBOARD_LINK_SECRET", "0123456789abcdef0123456789abcdef");
        for (name, value) in [
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ("OMPI_MCA_oob_tcp_if_include", "lo"),
            ("TMPDIR", "/tmp"),
        ] {
            shell.env(name, value);
        }
        if command.contains("--hosts slurm") {
            shell.env("SLURM_JOB_NODELIST", "one,two");
        }
        shell
    }

    /// Writes a file that the page shows: its first line is a comment with its name.
    fn keep_file(&mut self, text: &str) {
        let name = text.strip_prefix("# ").and_then(|text| text.split_once(": ")).map(|(name, _)| name);
        if let Some(name) = name.filter(|name| name.ends_with(".txt") || name.ends_with(".toml")) {
            fs::write(self.folder.join(name), text).unwrap();
        }
    }

    /// Has daemons running that a command takes for granted, and none that are in its way.
    fn surround(&mut self, command: &str) {
        for address in addresses_elsewhere(command) {
            if !self.elsewhere.iter().any(|(known, _)| *known == address) {
                let daemon = match address.ends_with(":7001") {
                    true => "outboard agent --memory-servers tcp:192.0.2.7:7000 --listen",
                    false => "outboard memory --data-dir ./srv/graphs --listen",
                };
                let running = self.daemon(&format!("{daemon} {address}"));
                self.elsewhere.push((address, running));
            }
        }
        if stays_at_usual_socket(command) {
            self.up.take().map(Running::interrupt);
        } else if self.up.is_none() && self.started.is_empty() {
            self.up = Some(self.daemon("outboard up --memory-data-dir ./srv/graphs"));
        }
    }

    fn daemon(&self, command: &str) -> Running {
        let mut daemon = Running::start(self.shell(&format!("exec {command}")));
        if !daemon.is_ready(|text| is_ready(command, text)) {
            panic!("{command}: {:?}", daemon.end());
        }
        daemon
    }

    /// Runs a command, and compares what it prints with the page.
    fn try_out(&mut self, place: &str, shown: &Shown) -> Result<(), String> {
        let command = in_short(&shown.command);
        if self.lacks || NOT_RUN.iter().any(|(words, _)| command.contains(words)) {
            return Ok(());
        }
        let is_root = rustix::process::geteuid().is_root();
        let as_one = AS_ONE.iter().find(|(words, ..)| command.contains(words));
        if as_one.is_some_and(|(_, as_root, _)| *as_root != is_root) {
            return Ok(());
        }
        if let Some((program, package)) =
            OPTIONAL.iter().find(|(program, _)| command.contains(program) && !self.has(program))
        {
            println!("skipped: {command}: there is no {program} here; apt-get install {package}");
            self.lacks = true;
            return Ok(());
        }
        if command.starts_with("outboard far ") && !self.has("liboutboard_preload.so") {
            println!(
                "skipped: {command}: cargo build -p outboard-preload, or cargo test --workspace, makes what it loads"
            );
            return Ok(());
        }
        if command.starts_with("outboard bench ") && !self.has("outboard-bench") {
            println!(
                "skipped: {command}: cargo build -p outboard-bench, or cargo test --workspace, makes outboard-bench"
            );
            return Ok(());
        }
        if let Some((_, name)) = command.split_once("-c ").filter(|_| command.starts_with("clang ")) {
            fs::write(self.folder.join(name.split(' ').next().unwrap_or(name)), &self.source).unwrap();
        }
        self.surround(&command);
        let wrong = |why: &str, ended: &Ended| Err(format!("{place}: `{command}` {why}:\n{}", ended.text));
        let began = Instant::now();
        if let Some(text) = self.known.get(&command) {
            return compare(place, &command, shown, text);
        }
        // Ctrl-C is for the command, and not for the shell.
        let exec = if stays(&command) { "exec " } else { "" };
        let mut running = Running::start(self.shell(&format!("{exec}{}", command.trim_end_matches('&'))));
        let ended = match running.is_ready(|text| is_ready(&command, text)) {
            true if command.ends_with('&') => {
                self.started.push(running);
                return Ok(());
            }
            true => running.interrupt(),
            false => running.end(),
        };
        println!("{place}: {command} ({:.1?})", began.elapsed());
        if command.contains("--background") && ended.code == Some(0) {
            process::terminate(&ended.text);
        }
        let fails = shown.output.iter().any(|line| line.starts_with("outboard: "));
        // What only looks, and has nothing to tidy up, ends by Ctrl-C itself.
        let code = if command.contains("status --watch") { 130 } else { i32::from(fails) };
        if ended.code != Some(code) {
            return wrong(&format!("ends with code {:?}", ended.code), &ended);
        }
        if ONCE.iter().any(|words| command.starts_with(words)) {
            self.known.insert(command.clone(), ended.text.clone());
        }
        compare(place, &command, shown, &ended.text)
    }

    fn has(&self, program: &str) -> bool {
        let name = program.split(' ').next().unwrap_or(program);
        // What stands for a compiler is there even if none is.
        let look = if name == "clang" { "clang --version".to_owned() } else { format!("command -v {name}") };
        Running::start(self.shell(&look)).end().code == Some(0)
    }

    /// Ends what runs. Returns what did not end well.
    fn leave(mut self) -> Vec<String> {
        let daemons = self
            .started
            .drain(..)
            .chain(self.up.take())
            .chain(self.elsewhere.drain(..).map(|(_, running)| running));
        let ends = daemons.map(Running::interrupt).filter(|ended| ended.code != Some(0));
        ends.map(|ended| format!("a daemon ends with code {:?}: {}", ended.code, ended.text)).collect()
    }
}

/// Compares what a command has printed with the page.
fn compare(place: &str, command: &str, shown: &Shown, text: &str) -> Result<(), String> {
    let is_compared = !NOT_COMPARED.iter().any(|(words, _)| command.contains(words));
    match shown::missing(&shown.output, text).filter(|_| is_compared) {
        Some(missing) => Err(format!("{place}: `{command}` does not print {missing}:\n{text}")),
        None => Ok(()),
    }
}

/// A command as it is run here.
fn in_short(command: &str) -> String {
    let command = command.split_once(" # ").map_or(command, |(command, _)| command).trim_end();
    let command =
        INSTEAD.iter().fold(command.to_owned(), |command, (words, instead)| command.replace(words, instead));
    if ["outboard bench ", "outboard characterize"].iter().any(|words| command.starts_with(words)) {
        return format!("{} --tiny", command.replace(" --quick", ""));
    }
    let has = |app: &str, flag: &str| command.contains(app) && !command.contains(flag);
    match LESS.iter().find(|(app, flag, _)| has(app, flag)) {
        Some((_, flag, value)) => format!("{command} {flag} {value}"),
        None => command,
    }
}

/// Where a command expects daemons of other machines.
fn addresses_elsewhere(command: &str) -> Vec<String> {
    let words = command.split([' ', ',', ';', '\'']).filter(|word| word.starts_with("tcp:192.0.2."));
    words.filter(|word| !command.contains(&format!("--listen {word}"))).map(str::to_owned).collect()
}

/// Whether a command runs a daemon where this user's daemons usually are.
fn stays_at_usual_socket(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["outboard", "up" | "agent", ..] | ["outboard", "kv" | "btree", "serve", ..] => true,
        ["outboard", "memory", rest @ ..] => rest.first().is_none_or(|word| word.starts_with(['-', '&'])),
        _ => false,
    }
}

/// Whether a command stays until Ctrl-C.
fn stays(command: &str) -> bool {
    let is_brief = ["--background", "--print-config"].iter().any(|flag| command.contains(flag));
    !is_brief && (stays_at_usual_socket(command) || command.contains("status --watch"))
}

/// Whether it has said that it works.
fn is_ready(command: &str, text: &str) -> bool {
    match command {
        _ if !stays(command) => false,
        _ if command.starts_with("outboard up --json") => text.contains('\n'),
        _ if command.starts_with("outboard up") => text.contains("Ctrl-C stops them"),
        _ if command.contains("status --watch") => text.contains("went wrong"),
        _ => text.contains(" listens at "),
    }
}
