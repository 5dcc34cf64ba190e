//! Settings: from where they come, how they are shown, and what is said of mistakes.

use serde_json::Value;

use outboard_e2e::{Ended, Folder, outboard, run_outboard};

#[test]
fn a_mistake_in_a_file_is_named_with_its_line_and_key() {
    let folder = Folder::new();
    let bad_value = folder.write("value.toml", "[memory]\nname = \"a\"\ncapacity = \"lots\"\n");
    run_outboard(&["memory", "--config", &bad_value]).failed(1, &["value.toml:3", "memory.capacity", "lots"]);
    let bad_key = folder.write("key.toml", "[agent]\nworker = 4\n");
    run_outboard(&["agent", "--config", &bad_key])
        .failed(1, &["key.toml:2", "agent.worker", "agent.workers"]);
    let bad_toml = folder.write("toml.toml", "[memory]\ncapacity = 4GiB\n");
    run_outboard(&["memory", "--config", &bad_toml]).failed(1, &["toml.toml:2", "capacity"]);
    let missing = folder.path().join("none.toml");
    let missing = missing.to_str().unwrap();
    run_outboard(&["status", "--config", missing]).failed(1, &["none.toml", "--config"]);
}

#[test]
fn the_printed_configuration_says_where_each_value_came_from() {
    let folder = Folder::new();
    let file = folder.write("c.toml", "[memory]\nname = \"from-file\"\ncapacity = \"1GiB\"\n");
    let arguments = ["memory", "--config", &file, "--listen", "unix:@a,tcp:127.0.0.1:7", "--print-config"];
    let output = outboard(&arguments).env("OUTBOARD_MEMORY_CAPACITY", "2GiB").output().unwrap();
    let toml = String::from_utf8(output.stdout).unwrap();
    for (assignment, origin) in [
        ("name = \"from-file\"", "c.toml:2"),
        ("capacity = \"2GiB\"", "$OUTBOARD_MEMORY_CAPACITY"),
        ("listen = [\"unix:@a\", \"tcp:127.0.0.1:7\"]", "--listen"),
    ] {
        let line = toml.lines().find(|line| line.starts_with(assignment)).expect(assignment);
        assert!(line.ends_with(origin), "{line}");
    }
    // What is left to the machine is shown with what it comes to, and why.
    let line = toml.lines().find(|line| line.starts_with("workers = \"auto\"")).expect("workers");
    assert!(line.contains("# default; here ") && line.contains(" core"), "{line}");
}

#[test]
fn the_printed_configuration_read_back_gives_the_same_values() {
    let folder = Folder::new();
    let flags = ["--workers", "7", "--wire", "10gbit,5us", "--quota", "30%", "--link-ring", "1MiB"];
    let print = [&["agent", "--print-config"][..], &flags].concat();
    let file = folder.write("c.toml", &run_outboard(&print).succeeded());
    let values = |json: Value| -> Vec<(Value, Value)> {
        let entries = json.as_array().unwrap().iter();
        entries.map(|entry| (entry["key"].clone(), entry["value"].clone())).collect()
    };
    let first = values(run_outboard(&[&print[..], &["--json"]].concat()).json());
    let again = values(run_outboard(&["run", "--config", &file, "--print-config", "--json"]).json());
    assert_eq!(first, again);
    assert!(first.contains(&("agent.workers".into(), 7.into())), "{first:?}");
}

#[test]
fn a_variable_that_is_no_setting_is_warned_of() {
    let output = outboard(&["memory", "list", "--server", "unix:@outboard-nobody-here"])
        .env("OUTBOARD_MEMORY_CAPACITI", "1GiB")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("WARN") && err.contains("OUTBOARD_MEMORY_CAPACITY?"), "{err}");
}

#[test]
fn commands_without_settings_warn_of_it_too() {
    let told = |name: &str| {
        let output = outboard(&["keys", "secret"]).env(name, "1GiB").output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let err = told("OUTBOARD_MEMORY_CAPACITI");
    assert!(err.contains("outboard: warning: $OUTBOARD_MEMORY_CAPACITI is no setting"), "{err}");
    assert!(err.contains("did you mean $OUTBOARD_MEMORY_CAPACITY?"), "{err}");
    for known in ["OUTBOARD_SEED", "OUTBOARD_REPORT", "OUTBOARD_TEST_SOMETHING"] {
        assert_eq!(told(known), "");
    }
}

#[test]
fn a_setting_has_the_same_flags_in_every_command() {
    for (command, flag) in [
        ("memory", "--capacity"),
        ("memory", "--memory-capacity"),
        ("up", "--capacity"),
        ("up", "--memory-capacity"),
    ] {
        let printed = run_outboard(&[command, flag, "3GiB", "--print-config"]).succeeded();
        assert!(printed.contains("capacity = \"3GiB\""), "{command} {flag}: {printed}");
    }
}

#[test]
fn a_path_that_is_not_text_is_named_with_its_flag() {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::OsStr::from_bytes(b"/srv/gr\xe4ph");
    let ended = Ended::from(outboard(&["memory", "--data-dir"]).arg(path).output().unwrap());
    ended.failed(2, &["--data-dir: “/srv/gr\u{fffd}ph” is not UTF-8 text", "symbolic link"]);
    let ended = Ended::from(outboard(&["memory"]).env("OUTBOARD_MEMORY_DATA_DIR", path).output().unwrap());
    ended.failed(1, &["OUTBOARD_MEMORY_DATA_DIR", "UTF-8 text", "symbolic link"]);
}

#[test]
fn json_output_of_the_configuration_needs_the_configuration() {
    run_outboard(&["memory", "--json"]).failed(2, &["--print-config"]);
}
