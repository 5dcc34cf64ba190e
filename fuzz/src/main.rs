//! What `cargo xtask fuzz` needs besides libFuzzer: lists targets, writes seeds, runs one input, or mutates
//! blindly where libFuzzer cannot be built.
#![forbid(unsafe_code)]
// Its output is read by `cargo xtask fuzz` and by people.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use outboard_fuzz::{FuzzTarget, Mutator, TARGETS, find, kept};

const USAGE: &str = "usage: outboard-fuzz list | seeds TARGET FOLDER | replay TARGET FILE \
                     | mutate TARGET SECONDS FOLDER | mutations TARGET COUNT FOLDER | keep TARGET CONTROL_FILE";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for target in TARGETS {
                println!("{:<15} {}", target.name, target.what);
            }
            Ok(())
        }
        ["seeds", name, folder] => write_seeds(target(name)?, Path::new(folder)),
        ["keep", name, control] => {
            let (target, control) = (target(name)?, Path::new(control));
            let count = kept::keep(target, control)?;
            println!("{name}: {count} inputs in {}", kept::path(target).display());
            Ok(())
        }
        ["replay", name, file] => replay(target(name)?, Path::new(file)),
        ["mutate", name, seconds, folder] => {
            let (start, time) = (Instant::now(), Duration::from_secs(seconds.parse()?));
            mutate(target(name)?, |_| start.elapsed() < time, Path::new(folder))
        }
        ["mutations", name, count, folder] => {
            let count: u64 = count.parse()?;
            mutate(target(name)?, |runs| runs < count, Path::new(folder))
        }
        _ => anyhow::bail!(USAGE),
    }
}

fn target(name: &str) -> Result<&'static FuzzTarget> {
    find(name).with_context(|| format!("no target `{name}`; `outboard-fuzz list` names them"))
}

fn write_seeds(target: &FuzzTarget, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    for (kind, inputs) in [("seed", (target.seeds)()), ("kept", kept::read(target)?)] {
        for (index, input) in inputs.iter().enumerate() {
            let path = folder.join(format!("{kind}-{index}"));
            fs::write(&path, input).with_context(|| format!("could not write {}", path.display()))?;
        }
    }
    Ok(())
}

fn replay(target: &FuzzTarget, file: &Path) -> Result<()> {
    let input = fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    println!("{}: {} bytes: {:?}", target.name, input.len(), (target.run)(&input));
    Ok(())
}

/// Runs mutations as long as wanted, or until one breaks the target. Each round of a thousand has its own seed, so
/// that a broken one can be named by two small numbers.
fn mutate(target: &FuzzTarget, goes_on: impl Fn(u64) -> bool, folder: &Path) -> Result<()> {
    const ROUND: u64 = 1000;
    let began = Instant::now();
    let mut runs = 0;
    let mut seeds = (target.seeds)();
    seeds.extend(kept::read(target)?);
    while goes_on(runs) {
        let mut mutator = Mutator::new(runs / ROUND, seeds.clone());
        for _ in 0..ROUND {
            let input = mutator.next_input();
            if catch_unwind(|| (target.run)(&input)).is_err() {
                let path = folder.join(format!("mutation-{runs}"));
                fs::write(&path, &input).with_context(|| format!("could not write {}", path.display()))?;
                anyhow::bail!(
                    "{} broke on {input:02x?}; Test unit written to {}",
                    target.name,
                    path.display()
                );
            }
            runs += 1;
        }
    }
    eprintln!("Done {runs} runs in {} second(s)", began.elapsed().as_secs());
    Ok(())
}
