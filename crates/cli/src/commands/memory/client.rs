//! Questions of clients to a memory server: `list`, `reserve`, `load`, `save`, `restore` and `free`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use outboard::{Memory, RegionEntry};
use outboard_settings::ByteSize;
use outboard_wire::Rights;
use outboard_wire::control::RegionName;
use serde_json::json;

use super::dump::{self, Dumped};
use crate::commands::place::Place;
use crate::{numbers, terminal};

/// The questions to a running server.
#[derive(clap::Subcommand)]
pub(super) enum Ask {
    List(List),
    Reserve(Reserve),
    Load(Load),
    Save(Save),
    Restore(Restore),
    Free(Free),
}

/// List the regions of a memory server
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard memory list
  outboard memory list --server tcp:192.0.2.7:7000 --json")]
pub(super) struct List {
    #[command(flatten)]
    server: Server,
}

/// Reserve a region that stays until it is freed
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard memory reserve table --size 1GiB
  outboard memory reserve index --size 1GiB --populate     for random access to all of it
  outboard memory reserve heap --size 1TiB --sparse        of which far memory will write a part")]
pub(super) struct Reserve {
    #[command(flatten)]
    server: Server,
    /// The name by which processes open it, up to 128 bytes
    #[arg(value_parser = name, required_unless_present = "old_name")]
    name: Option<String>,
    /// The name, as it was given before
    #[arg(long = "name", value_name = "NAME", value_parser = name, conflicts_with = "name", hide = true)]
    old_name: Option<String>,
    /// How many bytes, for example 64MiB
    #[arg(long, value_parser = size)]
    size: ByteSize,
    /// Take memory for all of it now, in large pages where the server's machine has them, instead of when it is first
    /// written
    #[arg(long)]
    populate: bool,
    /// Count only what far memory writes there, so that the region may be larger than all the memory that the server has; what it
    /// has no room for is refused when it is written
    #[arg(long)]
    sparse: bool,
}

/// Have the server load a file of its data directory into a region that stays until it is freed
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard memory --data-dir /srv/graphs
  outboard memory load web/edges.bin
  outboard memory free file:web/edges.bin")]
pub(super) struct Load {
    #[command(flatten)]
    server: Server,
    /// Where the file lies below the server's data directory
    path: String,
    /// How long the server may take to read it
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    within: u64,
}

/// Save a region into a file: what is not zero of it, with checksums
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard memory save table table.region
  outboard memory save table table.region --force         over a file that is there

No process may be writing to the region meanwhile: one that has it to write is named, and nothing is saved.")]
pub(super) struct Save {
    #[command(flatten)]
    server: Server,
    /// The region's name, as `outboard memory list` shows it
    #[arg(value_parser = name)]
    name: String,
    /// The file
    file: PathBuf,
    /// Replace a file that is there, once all of the region is saved
    #[arg(long)]
    force: bool,
}

/// Make a region of a file that `outboard memory save` has written
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard memory restore table table.region
  outboard memory restore table table.region --force      in place of the region of that name

The whole file is checked before anything is done at the server.")]
pub(super) struct Restore {
    #[command(flatten)]
    server: Server,
    /// The name that the region will have
    #[arg(value_parser = name)]
    name: String,
    /// The file
    file: PathBuf,
    /// Count only what is not zero of it, and what far memory writes there
    #[arg(long)]
    sparse: bool,
    /// Free a region that has this name
    #[arg(long)]
    force: bool,
}

/// Free a named region or a loaded file, with all that is in it
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard memory free table
  outboard memory free file:web/edges.bin")]
pub(super) struct Free {
    #[command(flatten)]
    server: Server,
    /// The region's name, as `outboard memory list` shows it
    #[arg(value_parser = name)]
    name: String,
}

/// Which server, and how to answer.
#[derive(clap::Args)]
struct Server {
    #[command(flatten)]
    place: Place,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// In which units a sparse region is counted, as a power of two: 64 KiB.
const SPARSE_UNIT_LOG2: u8 = 16;

fn name(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a region's name cannot be empty".to_owned()),
        len if len > size_of::<RegionName>() => Err("a region's name has at most 128 bytes".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("a region has at least one byte".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

impl Ask {
    /// Asks, and prints the answer.
    pub(super) fn run(&self) -> Result<()> {
        let server = match self {
            Self::List(List { server }) | Self::Reserve(Reserve { server, .. }) => server,
            Self::Load(Load { server, .. }) | Self::Free(Free { server, .. }) => server,
            Self::Save(Save { server, .. }) | Self::Restore(Restore { server, .. }) => server,
        };
        let Some(found) = server.place.find("outboard memory", server.json)? else { return Ok(()) };
        let mut memory = found.memory()?;
        let answer = self.ask(&mut memory, server.json);
        memory.close("done");
        terminal::print(&answer?)
    }

    fn ask(&self, memory: &mut Memory, as_json: bool) -> Result<String> {
        Ok(match self {
            Self::List(_) => list(&memory.list()?, as_json),
            Self::Reserve(Reserve { name, old_name, size, populate, sparse, .. }) => {
                let name = name.as_deref().or(old_name.as_deref()).unwrap_or_default();
                let region = match sparse {
                    true => memory.reserve_sparse(size.0, SPARSE_UNIT_LOG2, Some(name))?,
                    false => memory.reserve(size.0, Some(name))?,
                };
                let (id, size) = (region.id(), region.size());
                let large = match populate.then(|| memory.populate(&region)).transpose() {
                    Ok(large) => large,
                    Err(error) => {
                        memory.free(region)?;
                        return Err(error.into());
                    }
                };
                // The next client finds it free, however late the server notices that we have gone.
                memory.release(region)?;
                match as_json {
                    true => {
                        let answer = json!({"name": name, "region": id, "size_bytes": size});
                        with_large(answer, large).to_string()
                    }
                    false => {
                        let large = large.map(|large| format!(", {} in large pages", numbers::bytes(large)));
                        format!("reserved {} as “{name}”{}", numbers::bytes(size), large.unwrap_or_default())
                    }
                }
            }
            Self::Load(Load { path, within, .. }) => {
                let region = memory.load(path, Rights::READ, Duration::from_secs(*within))?;
                let (id, size) = (region.id(), region.size());
                memory.release(region)?;
                match as_json {
                    true => json!({"file": path, "region": id, "size_bytes": size}).to_string(),
                    false => format!("loaded {} from “{path}”", numbers::bytes(size)),
                }
            }
            Self::Save(Save { name, file, force, .. }) => {
                let Dumped { size, written } = dump::save(memory, name, file, *force)?;
                match as_json {
                    true => json!({"name": name, "file": file, "size_bytes": size, "written_bytes": written})
                        .to_string(),
                    false => format!(
                        "saved “{name}” into {}: {}, of which {} are not zero",
                        file.display(),
                        numbers::bytes(size),
                        numbers::bytes(written)
                    ),
                }
            }
            Self::Restore(Restore { name, file, sparse, force, .. }) => {
                let Dumped { size, written } = dump::restore(memory, name, file, (*sparse, *force))?;
                match as_json {
                    true => json!({"name": name, "file": file, "size_bytes": size, "written_bytes": written})
                        .to_string(),
                    false => format!(
                        "restored {} as “{name}”, of which {} are not zero",
                        numbers::bytes(size),
                        numbers::bytes(written)
                    ),
                }
            }
            Self::Free(Free { name, .. }) => {
                let region = memory.open_shared(name, Rights::READ.and(Rights::WRITE))?;
                let size = region.size();
                memory.free(region)?;
                match as_json {
                    true => json!({"name": name, "size_bytes": size}).to_string(),
                    false => format!("freed {} of “{name}”", numbers::bytes(size)),
                }
            }
        })
    }
}

/// Says how much lies in large pages, where the user has asked for them.
fn with_large(mut answer: serde_json::Value, large: Option<u64>) -> serde_json::Value {
    if let Some(large) = large {
        answer["large_bytes"] = large.into();
    }
    answer
}

fn list(regions: &[RegionEntry], as_json: bool) -> String {
    if as_json {
        let region = |region: &RegionEntry| {
            let RegionEntry { id, name, size, owner, .. } = region;
            json!({"region": id, "name": name, "size_bytes": size, "owner_pid": owner})
        };
        return json!(regions.iter().map(region).collect::<Vec<_>>()).to_string();
    }
    if regions.is_empty() {
        return "no regions".to_owned();
    }
    let mut table = terminal::table(["region", "name", "size", "owner"]);
    for region in regions {
        let owner = match region.owner {
            None => "none: freed by name only".to_owned(),
            Some(pid) => format!("process {pid}"),
        };
        let name = region.name.clone().unwrap_or_default();
        table.add_row([region.id.to_string(), name, numbers::bytes(region.size), owner]);
    }
    table.to_string()
}
