//! `outboard keys`: by what the machines of a cluster know each other.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use outboard_keys::{AUTHORITY_DAYS, Certificate, NODE_DAYS};
use outboard_link::tcp::Credential;
use outboard_settings::{KeysPlace, Secret};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::terminal;

/// Make the keys by which the machines of a cluster know each other
///
/// Links between machines are encrypted, and both sides show a certificate of the same authority before anything
/// else. Run init on one machine, issue there for each of the others, and copy the folder to its place. For a single
/// job a random secret will do instead.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard keys init                                   an authority, and this machine's keys
  outboard keys issue node7 --for ./node7              another machine's keys …
  scp -r ./node7 node7:.config/outboard/keys           … and where they go; delete ./node7 then
  outboard keys show                                   what is here, and when it expires
  export OUTBOARD_LINK_SECRET=$(outboard keys secret)  or, on every machine, the same secret")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Init(Init),
    Issue(Issue),
    Show(Show),
    Secret(DrawSecret),
}

/// Make a new authority, and the keys of this machine
///
/// The folder holds the authority's private key, ca.key, too: a process that can read it can let any machine in.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard keys init
  outboard keys init --dir /etc/outboard/keys --name head --days 90")]
struct Init {
    /// Where to put them; by default where this user's processes look
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// This machine's name in its certificate, for people
    #[arg(long, default_value = "head")]
    name: String,
    /// For how many days this machine's certificate is valid
    #[arg(long, default_value_t = NODE_DAYS, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Make the keys of another machine, by the authority that is here
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard keys issue node7 --for ./node7
  outboard keys issue node8 --for ./node8 --days 30 --dir /etc/outboard/keys")]
struct Issue {
    /// The machine's name in its certificate, for people
    name: String,
    /// A new folder for its keys
    #[arg(long = "for", value_name = "FOLDER")]
    into: PathBuf,
    /// Where the authority is; by default where this user's processes look
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// For how many days the certificate is valid
    #[arg(long, default_value_t = NODE_DAYS, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Show what is in a folder of keys, and when it expires
///
/// Fails if links cannot use it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard keys show
  outboard keys show ./node7
  outboard keys show --dir /etc/outboard/keys")]
struct Show {
    /// The folder; by default where this user's processes look
    folder: Option<PathBuf>,
    /// The folder, as the other commands have it
    #[arg(long, value_name = "FOLDER", conflicts_with = "folder")]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Draw a random secret, for OUTBOARD_LINK_SECRET or link.secret
#[derive(clap::Args)]
#[command(after_help = "Examples:
  export OUTBOARD_LINK_SECRET=$(outboard keys secret)")]
struct DrawSecret {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Makes or shows keys.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Init(args) => init(args),
        What::Issue(args) => issue(args),
        What::Show(args) => show(args),
        What::Secret(DrawSecret { json }) => {
            let secret = Secret::draw().context("the kernel gives no random bytes")?;
            told(*json, || json!({ "secret": secret.expose() }), || secret.expose().to_owned())
        }
    }
}

fn init(args: &Init) -> Result<()> {
    let folder = args.dir.clone().map_or_else(usual_folder, Ok)?;
    outboard_keys::init(&folder, &args.name, args.days)?;
    let (shown, days) = (shown(&folder), args.days);
    told(
        args.json,
        || json!({ "folder": shown, "name": args.name, "days": days, "authority_days": AUTHORITY_DAYS }),
        || {
            format!(
                "{shown}: an authority for {AUTHORITY_DAYS} days, and this machine's keys for {days}\n\
                 next: `outboard keys issue NAME --for FOLDER` for each other machine, and keep ca.key to yourself"
            )
        },
    )
}

fn issue(args: &Issue) -> Result<()> {
    let authority = args.dir.clone().map_or_else(found_folder, Ok)?;
    outboard_keys::issue(&authority, &args.name, &args.into, args.days)?;
    let (into, name, days) = (shown(&args.into), &args.name, args.days);
    told(
        args.json,
        || json!({ "folder": into, "name": name, "days": days }),
        || {
            format!(
                "{into}: the keys of {name} for {days} days\n\
                 next: copy the folder to {name}, as ~/.config/outboard/keys or /etc/outboard/keys, and delete it here"
            )
        },
    )
}

fn show(args: &Show) -> Result<()> {
    let folder = args.folder.clone().or(args.dir.clone()).map_or_else(found_folder, Ok)?;
    let facts = outboard_keys::look(&folder)?;
    let now = OffsetDateTime::now_utc();
    let object = |certificate: &Certificate| {
        let until = certificate.until.date().to_string();
        json!({ "name": certificate.name, "until": until, "days_left": certificate.days_left(now) })
    };
    let issues = if facts.can_issue { ", issues certificates here" } else { "" };
    let (authority, node) = (&facts.authority, &facts.node);
    told(
        args.json,
        || {
            json!({
                "folder": shown(&folder), "can_issue": facts.can_issue,
                "authority": object(authority), "node": object(node),
            })
        },
        || {
            let (authority, node) = (line(authority, now), line(node, now));
            format!("folder     {}\nauthority  {authority}{issues}\nnode       {node}", folder.display())
        },
    )?;
    Credential::Keys(folder).check()?;
    Ok(())
}

/// Prints what is for programs, or what is for people.
fn told(as_json: bool, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result<()> {
    terminal::print(&if as_json { json().to_string() } else { text() })
}

fn line(certificate: &Certificate, now: OffsetDateTime) -> String {
    let left = match certificate.days_left(now) {
        days @ ..0 => format!("expired {} days ago", -days),
        days => format!("{days} days left"),
    };
    format!("{}, valid until {} ({left})", certificate.name, certificate.until.date())
}

/// Where this user's processes look first.
fn usual_folder() -> Result<PathBuf> {
    KeysPlace::places().into_iter().next().context("there is no usual place for keys; name one by --dir")
}

fn found_folder() -> Result<PathBuf> {
    KeysPlace::find().with_context(|| {
        let places: Vec<_> = KeysPlace::places().iter().map(|place: &PathBuf| shown(place)).collect();
        format!("there are no keys in {}; `outboard keys init` makes some", places.join(" or "))
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
