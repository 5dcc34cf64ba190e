use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outboard_limits::Allowance;
use outboard_link::Address;
use outboard_link::shm::Users;
use outboard_wire::{JobId, Rank};

use crate::{
    AddressChoice, ByteSize, Configuration, Inputs, LogFormat, OrAuto, Origin, Percent, Secret, Settings,
    SettingsError, default_socket, keys,
};

const HIDDEN: &str = "correct horse battery";

/// A folder that goes away with its owner.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("outboard-settings-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn load(inputs: Inputs) -> Configuration {
    Configuration::load(&inputs).unwrap_or_else(|error| panic!("{error}"))
}

fn load_file(text: impl AsRef<[u8]>) -> Configuration {
    let folder = Folder::new();
    load(Inputs::empty().config(folder.write("outboard.toml", text)))
}

fn error_of(inputs: Inputs) -> String {
    match Configuration::load(&inputs) {
        Ok(_) => panic!("this was accepted"),
        Err(error) => error.to_string(),
    }
}

/// The error about a file, with the folder left out.
fn file_error(text: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let error = error_of(Inputs::empty().config(folder.write("o.toml", text)));
    error.replace(&format!("{}/", folder.path().display()), "")
}

fn origin(configuration: &Configuration, key: &str) -> Origin {
    let entry = configuration.entries().iter().find(|entry| entry.key.name() == key);
    entry.unwrap_or_else(|| panic!("{key} is not listed")).origin.clone()
}

#[test]
fn without_any_source_everything_has_its_default() {
    let configuration = load(Inputs::empty());
    assert_eq!(configuration.settings, Settings::default());
    assert!(configuration.entries().iter().all(|entry| entry.origin == Origin::Default));
    assert_eq!(configuration.entries().len(), keys().len());
    assert_eq!(configuration.file(), None);
    assert_eq!(configuration.settings.agent.spin, OrAuto::Auto);
    assert_eq!(configuration.settings.memory.listen, [default_socket("memory")]);
}

#[test]
fn the_last_source_wins_and_is_remembered() {
    let folder = Folder::new();
    let path = folder.write("o.toml", "[agent]\nworkers = 3\n\n[memory]\nname = 'filed'\n");
    let file = Inputs::empty().config(&path);
    let configuration = load(file.clone());
    assert_eq!(configuration.settings.agent.workers, 3.into());
    assert_eq!(configuration.file(), Some(path.as_path()));
    assert_eq!(origin(&configuration, "agent.workers"), Origin::File { path: path.clone(), line: 2 });
    assert_eq!(origin(&configuration, "memory.name"), Origin::File { path, line: 5 });

    let variable = file.variable("OUTBOARD_AGENT_WORKERS", "4");
    let configuration = load(variable.clone());
    assert_eq!(configuration.settings.agent.workers, 4.into());
    assert_eq!(origin(&configuration, "agent.workers").to_string(), "$OUTBOARD_AGENT_WORKERS");
    assert_eq!(configuration.settings.memory.name, "filed");

    let configuration = load(variable.flag("agent.workers", "--workers", "5"));
    assert_eq!(configuration.settings.agent.workers, 5.into());
    assert_eq!(origin(&configuration, "agent.workers").to_string(), "--workers");
    assert_eq!(origin(&configuration, "agent.spin").to_string(), "default");
}

#[test]
fn the_nearest_file_is_read_and_a_named_one_before_all() {
    let folder = Folder::new();
    let [near, far, named, other] =
        ["near", "far", "named", "other"].map(|name| folder.write(name, format!("agent.name = '{name}'")));
    let mut inputs = Inputs::empty();
    inputs.places = vec![folder.path().join("absent"), near.join("absent"), near, far];
    let name = |inputs: &Inputs| load(inputs.clone()).settings.agent.name;
    assert_eq!(name(&inputs), "near");
    let inputs = inputs.variable("OUTBOARD_CONFIG", &other);
    assert_eq!(name(&inputs), "other");
    assert_eq!(name(&inputs.clone().config(named)), "named");
    assert_eq!(name(&inputs.clone().config("none")), "agent");
    assert_eq!(name(&inputs.clone().variable("OUTBOARD_CONFIG", "none")), "agent");
    assert_eq!(name(&inputs.variable("OUTBOARD_CONFIG", "")), "near");
}

#[test]
fn every_kind_is_read_from_a_file() {
    let settings = load_file(
        "memory.listen = ['unix:/run/o,b.sock', 'tcp:127.0.0.1:7000']\nmemory.capacity = 4_096\n\
         [agent]\nspin = '1.5us'\nwire = '10gbit,5us'\nquota = 0.3\npeers = 'tcp:1.2.3.4:5'\nworkers = 0x10\n\
         [job]\nagent = 'none'\nid = '00ff'\nrank = 0\nsize = '2'\n\
         [link]\nring = '1MiB'\nallow_remote = true\nusers = [1000, '1001']\n\
         [log]\nformat = 'json'\n[metrics]\nlisten = '127.0.0.1:9100'\n",
    )
    .settings;
    assert_eq!(settings.memory.listen[0], Address::Path("/run/o,b.sock".into()));
    assert_eq!((settings.memory.listen.len(), settings.memory.capacity), (2, ByteSize(4096).into()));
    assert_eq!(settings.agent.spin, Duration::from_nanos(1500).into());
    assert_eq!(settings.agent.wire.unwrap().to_string(), "10gbit,5us");
    assert_eq!(settings.agent.quota, Some(Percent::from_percent(30)));
    assert_eq!((settings.agent.peers.len(), settings.agent.workers), (1, 16.into()));
    assert_eq!((settings.job.agent.address("agent"), settings.job.id), (None, Some(JobId(255))));
    assert_eq!((settings.job.rank, settings.job.size), (Some(Rank(0)), Some(2)));
    assert_eq!((settings.link.ring, settings.link.allow_remote), (ByteSize(1 << 20), true));
    assert_eq!(settings.link.shm().users, Users::These(vec![1000, 1001]));
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.metrics.listen, Some(([127, 0, 0, 1], 9100).into()));
}

#[test]
fn every_kind_is_read_from_variables_and_flags() {
    let inputs = Inputs::empty()
        .variable("OUTBOARD_MEMORY_LISTEN", "unix:@a, tcp:127.0.0.1:1,")
        .variable("OUTBOARD_AGENT_MEMORY_SERVERS", "none")
        .variable("OUTBOARD_AGENT_SPIN", "")
        .variable("OUTBOARD_LINK_ALLOW_REMOTE", "on")
        .variable("OUTBOARD_JOB_MEMORY", "auto")
        .flag("agent.listen", "--listen", "unix:@a")
        .flag("agent.listen", "--listen", "unix:@b,unix:@c")
        .flag("agent.wire", "--wire", "1gbit,1ms")
        .flag("agent.wire", "--wire", "10gbit,5us");
    let settings = load(inputs).settings;
    assert_eq!(settings.memory.listen.len(), 2);
    assert_eq!(settings.agent.memory_servers, []);
    assert_eq!(settings.agent.spin, OrAuto::Auto);
    assert!(settings.link.allow_remote);
    assert_eq!(settings.job.memory, AddressChoice::Auto);
    assert_eq!(settings.agent.listen.len(), 3);
    assert_eq!(settings.agent.wire.unwrap().to_string(), "10gbit,5us");
}

#[test]
fn a_bad_value_names_its_place_its_key_and_what_is_expected() {
    for (text, parts) in [
        ("\n[memory]\ncapacity = '4 cows'", ["o.toml:3: memory.capacity: “4 cows” is no capacity", "4GiB"]),
        ("memory.capacity = 0", ["memory.capacity: “0” will not do", "a size such as 4GiB"]),
        ("memory.capacity = '4095B'", ["memory.capacity: “4095B” will not do", "no region"]),
        ("memory.capacity = '0%'", ["memory.capacity: “0%” will not do", "a share such as 50%"]),
        ("memory.capacity = '500%'", ["memory.capacity: “500%” will not do", "write at most 100%"]),
        ("agent.cache = '101%'", ["agent.cache: “101%” will not do", "write at most 100%"]),
        ("far.buffer = '65TiB'", ["far.buffer: “65TiB” will not do", "at most 64TiB"]),
        ("memory.listen = 'here'", ["o.toml:1: memory.listen: “here” is no address", "unix:@name"]),
        ("memory.listen = []", ["o.toml:1: memory.listen: “none” will not do", "at least one address"]),
        ("memory.listen = [1, [2]]", ["found a list of something else", "write a list such as"]),
        ("memory.name = 5", ["memory.name: found a number where a text belongs", "a text in quotes"]),
        ("memory.data_dir = true", ["memory.data_dir: found true or false where a path belongs", "/var/lib"]),
        ("agent.spin = 20", ["agent.spin: “20” is no duration: its unit is not", "500ms"]),
        ("agent.spin = 1979-05-27", ["agent.spin: found a date where a duration belongs", "500ms"]),
        ("agent.workers = -1", ["agent.workers: “-1” is no number", "a whole number"]),
        ("agent.workers = 0", ["agent.workers: “0” will not do", "at least one"]),
        ("agent.quota = '0%'", ["agent.quota: “0%” will not do", "at least 1%"]),
        ("agent.quota = 30", ["agent.quota: “30” is no share: it is over 1", "30%"]),
        ("agent.wire = '10gbit'", ["agent.wire: “10gbit” is no wire", "10gbit,5us"]),
        ("link.ring = '96KiB'", ["link.ring: “96KiB” will not do", "power of two"]),
        ("link.allow_remote = 'perhaps'", ["link.allow_remote: “perhaps” is no switch", "true or false"]),
        ("log.level = 'loud'", ["log.level: “loud” is no level", "off, error, warn"]),
        ("job.id = 'xyz'", ["job.id: “xyz” is no id", "hexadecimal"]),
        ("metrics.listen = 9100", ["metrics.listen: “9100” is no socket", "127.0.0.1:9100"]),
    ] {
        let error = file_error(text);
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let error = error_of(Inputs::empty().variable("OUTBOARD_AGENT_SPIN", "soon"));
    assert!(error.starts_with("$OUTBOARD_AGENT_SPIN: agent.spin: “soon” is no duration"), "{error}");
    let error = error_of(Inputs::empty().flag("agent.spin", "--spin", "soon"));
    assert!(error.starts_with("--spin: agent.spin: “soon” is no duration"), "{error}");
    let bytes = std::ffi::OsString::from_vec(vec![0xff]);
    let error = error_of(Inputs::empty().variable("OUTBOARD_AGENT_NAME", bytes));
    assert!(error.contains("$OUTBOARD_AGENT_NAME") && error.contains("UTF-8"), "{error}");
}

#[test]
fn an_unknown_key_names_the_nearest() {
    for (text, part) in [
        ("[memory]\ncapcity = 1", "o.toml:2: there is no key memory.capcity; did you mean memory.capacity?"),
        ("[memroy]\nlisten = []", "o.toml:2: there is no key memroy.listen; did you mean memory.listen?"),
        ("\nquota = 2", "o.toml:2: there is no key quota; did you mean agent.quota?"),
        ("[agent]\nlisten.on = 2", "did you mean agent.listen?"),
        ("memory = 2", "there is no key memory; it is a section: write it in brackets"),
        ("[elephant]", "o.toml:1: there is no key elephant; --print-config shows all keys"),
        ("z = 1\n[b]\na = 1", "o.toml:1: there is no key z"),
    ] {
        let error = file_error(text);
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(load_file("[memory]\n[agent]\n").settings, Settings::default());
    let error = error_of(Inputs::empty().flag("agent.worker", "--worker", "2"));
    assert_eq!(error, "--worker: there is no key agent.worker; did you mean agent.workers?");
}

#[test]
fn an_unknown_variable_is_noticed_and_ignored() {
    let inputs = Inputs::empty().variable("OUTBOARD_MEMROY_NAME", "x").variable("OUTBOARD_LOG", "x");
    let others =
        ["OUTBOARD_REPORT", "OUTBOARD_READY_FD", "OUTBOARD_SEED", "OUTBOARD_TEST_RANK", "OUTBOARD_JOB_RANK"];
    let inputs = others.into_iter().fold(inputs, |inputs, name| inputs.variable(name, "7"));
    let notices: Vec<String> = load(inputs).notices().iter().map(ToString::to_string).collect();
    assert_eq!(notices.len(), 2);
    assert_eq!(notices[0], "$OUTBOARD_LOG is no setting and is ignored; unset it");
    assert!(notices[1].contains("did you mean $OUTBOARD_MEMORY_NAME?"), "{notices:?}");
}

#[test]
fn bad_toml_names_the_file_the_line_and_the_key() {
    for (text, part) in [
        ("[memory]\n\ncapacity = 4GiB\n", "o.toml:3:12: memory.capacity: "),
        ("[memory]\nname = \"open\nlisten = []\n", "o.toml:2:"),
        ("agent.workers = \n", "o.toml:1:"),
        ("[agent]\nworkers = 1\nworkers = 2\n", "o.toml:3:1: agent.workers: duplicate key"),
        ("[agent\n", "o.toml:1:"),
        ("ünsinn", "o.toml:1:"),
    ] {
        let error = file_error(text);
        assert!(error.starts_with(part) && error.contains("stand in quotes"), "{error}");
    }
    let error = file_error(b"[agent]\nname = '\xff'");
    assert_eq!(error, "o.toml:2: not UTF-8 text; save the file as UTF-8");
    let error = file_error("#".repeat((1 << 20) + 1));
    assert!(error.contains("is it the right file?"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_says_who_named_it() {
    let folder = Folder::new();
    let absent = folder.path().join("absent");
    let error = error_of(Inputs::empty().config(&absent));
    assert!(error.contains("absent: No such file") && error.contains("leave out --config"), "{error}");
    let error = error_of(Inputs::empty().variable("OUTBOARD_CONFIG", &absent));
    assert!(error.contains("leave out $OUTBOARD_CONFIG"), "{error}");
    let mut inputs = Inputs::empty();
    inputs.places = vec![folder.path().to_owned()];
    assert!(error_of(inputs).contains("choose another with --config"));
}

#[test]
fn what_is_printed_can_be_saved_and_gives_the_same_values() {
    let folder = Folder::new();
    let inputs = Inputs::empty()
        .variable("OUTBOARD_MEMORY_NAME", "quo\"te \\ \u{1} ü # no comment")
        .variable("OUTBOARD_MEMORY_CAPACITY", "1536MiB")
        .variable("OUTBOARD_AGENT_QUOTA", "12.5%")
        .variable("OUTBOARD_AGENT_WIRE", "10gbit,5us")
        .variable("OUTBOARD_AGENT_PEERS", "tcp:[::1]:1,unix:/x")
        .variable("OUTBOARD_AGENT_MEMORY_SERVERS", "none")
        .variable("OUTBOARD_JOB_ID", "ff")
        .variable("OUTBOARD_JOB_RANK", "3")
        .variable("OUTBOARD_LINK_USERS", "1,2")
        .variable("OUTBOARD_LINK_ALLOW_REMOTE", "yes")
        .variable("OUTBOARD_LOG_LEVEL", "TRACE");
    for inputs in [Inputs::empty(), inputs] {
        let printed = load(inputs);
        let text = printed.to_toml(&printed.settings.chosen(&Allowance::of_this_process()));
        let read = load(Inputs::empty().config(folder.write("printed\n.toml", &text)));
        assert_eq!(read.settings, printed.settings, "{text}");
        assert!(read.entries().iter().all(|entry| matches!(entry.origin, Origin::File { .. })), "{text}");
        let again = load(Inputs::empty().config(folder.write("again.toml", read.to_toml(&[]))));
        assert_eq!(again.settings, printed.settings);
        let lines: Vec<&str> = text.lines().collect();
        for entry in read.entries() {
            let Origin::File { line, .. } = &entry.origin else { continue };
            assert!(lines[line - 1].starts_with(entry.key.field), "{}", lines[line - 1]);
        }
    }
}

#[test]
fn a_process_hands_its_values_to_another_by_environment() {
    let mut given = Settings::default();
    given.job.secret = Some(Secret::new(HIDDEN).unwrap());
    given.job.rendezvous = Some(default_socket("rendezvous"));
    given.job.agent = AddressChoice::None;
    given.job.rank = Some(Rank(1));
    given.agent.memory_servers = vec![];
    given.agent.peers = vec![default_socket("one"), default_socket("two")];
    let folder = Folder::new();
    let contrary = folder.write("o.toml", "job.size = 9\njob.join_timeout = '1s'\n");
    let variables = given.job.variables().into_iter().chain(given.agent.variables());
    let inputs = variables
        .fold(Inputs::empty().config(contrary), |inputs, (name, value)| inputs.variable(name, value));
    // Without a credential of its own it shows that of the job.
    given.link = given.link.of_job(&given.job);
    assert_eq!(load(inputs).settings, given);
}

#[test]
fn secrets_are_never_shown() {
    let folder = Folder::new();
    let file = Inputs::empty().config(folder.write("o.toml", format!("[job]\nsecret = '{HIDDEN}'")));
    for inputs in [file, Inputs::empty().variable("OUTBOARD_JOB_SECRET", HIDDEN)] {
        let configuration = load(inputs);
        assert_eq!(configuration.settings.job.secret.as_ref().unwrap().expose(), HIDDEN);
        let entries = configuration.entries().iter().map(|entry| entry.value.to_string());
        let entries: Vec<String> = entries.collect();
        assert!(entries.contains(&"(secret)".to_owned()));
        let shown = format!("{entries:?} {} {:?}", configuration.to_toml(&[]), configuration.settings);
        assert!(!shown.contains("horse"), "{shown}");
        assert!(configuration.to_toml(&[]).contains("# secret = (secret)"));
    }
    for text in
        ["job.secret = 'horse'", "job.secret = 'horse", "job.secret = horse", "job.secret = ['horse']"]
    {
        let error = file_error(text);
        assert!(!error.contains("horse") && error.contains("secret"), "{error}");
    }
    let error = Configuration::load(&Inputs::empty().variable("OUTBOARD_JOB_SECRET", "horse")).err().unwrap();
    assert!(!format!("{error} {error:?}").contains("horse"), "{error:?}");
    assert!(matches!(error, SettingsError::BadValue { .. }));
    let secret = keys().into_iter().find(|key| key.name() == "job.secret").unwrap();
    assert_eq!(secret.flag("job"), None);
}

#[test]
fn drawn_secrets_differ() {
    let (one, other) = (Secret::draw().unwrap(), Secret::draw().unwrap());
    assert!(one == one.clone() && one != other);
    assert_eq!(one.expose().len(), 32);
}

#[test]
fn names_are_derived_and_unique() {
    let keys = keys();
    let data_dir = keys.iter().find(|key| key.name() == "memory.data_dir").unwrap();
    assert_eq!(data_dir.variable(), "OUTBOARD_MEMORY_DATA_DIR");
    assert_eq!(data_dir.flag("run").unwrap(), "memory-data-dir");
    assert_eq!(data_dir.flag("memory").unwrap(), "data-dir");
    let mut variables: Vec<String> = keys.iter().map(|key| key.variable()).collect();
    variables.sort();
    variables.dedup();
    assert_eq!(variables.len(), keys.len());
    assert!(!variables.contains(&"OUTBOARD_CONFIG".to_owned()));
    for key in &keys {
        assert!(key.doc.ends_with('.') && !key.doc.contains("  "), "{key}: {}", key.doc);
    }
}
