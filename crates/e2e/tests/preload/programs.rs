//! Real programs: their results are those of plain runs.

use std::fmt::Write;

use outboard_e2e::{Folder, run_outboard};

use crate::{agrees, far, has, skipped};

/// Lines in no order, always the same ones.
fn lines(count: u64) -> String {
    let mut state = 11_u64;
    (0..count).fold(String::new(), |mut text, number| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let _ = writeln!(text, "{:016x} {number}", state);
        text
    })
}

#[test]
fn sort_sorts_and_the_figures_are_told() {
    if skipped() {
        return;
    }
    let folder = Folder::new();
    folder.write("lines", &lines(100_000));
    let file = folder.path().join("lines");
    let file = file.to_str().expect("a folder of tests has a plain name");
    agrees("8MiB", &["sort", "-S", "16M", file]);
    let ended = far(&["--json", "--buffer", "1/3", "--", "sort", "-S", "16M", file]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let figures: serde_json::Value = serde_json::from_str(ended.err.trim()).expect("one object");
    let first = &figures["processes"][0];
    assert_eq!(first["name"], "sort", "{figures}");
    assert_eq!(first["level"], "malloc", "{figures}");
    assert!(first["used_most"].as_u64() > Some(4 << 20), "{figures}");
    assert_eq!(first["ended_in_order"], true, "{figures}");
}

#[test]
fn compressors_agree_with_themselves() {
    if skipped() {
        return;
    }
    let folder = Folder::new();
    folder.write("lines", &lines(20_000));
    let file = folder.path().join("lines");
    let file = file.to_str().expect("a folder of tests has a plain name");
    // What they write is no text, so it is what `cksum` says of it that is compared.
    for (program, command) in [("xz", "xz -0 -c"), ("zstd", "zstd -3 -q -c")] {
        if has(program) {
            agrees("32MiB", &["sh", "-c", &format!("{command} {file} | cksum")]);
        }
    }
}

#[test]
fn a_database_answers() {
    if skipped() || !has("sqlite3") {
        return;
    }
    let query = "create table t(a integer, b text);
        with recursive c(x) as (select 1 union all select x+1 from c where x<20000) insert into t select x, hex(x*7919%10007) from c;
        create index i on t(b);
        select count(*), sum(a), max(b) from t where b>'3030';
        select b, count(*) from t group by b order by 2 desc, 1 limit 5;";
    agrees("8MiB", &["sqlite3", ":memory:", query]);
}

#[test]
fn python_computes_and_starts_others() {
    if skipped() || !has("python3") {
        return;
    }
    let code = "import subprocess, threading
d = {str(i): i * i for i in range(100000)}
b = [bytearray(300000 + i) for i in range(40)]
def work(n):
    for x in b[n::4]:
        x[::4096] = bytes([n]) * len(x[::4096])
t = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[x.start() for x in t]; [x.join() for x in t]
print(sum(d.values()), sum(sum(x[::4096]) for x in b), subprocess.check_output(['echo', 'there']).decode())";
    agrees("8MiB", &["/usr/bin/env", "python3", "-c", code]);
}

#[test]
fn children_that_are_forked_see_what_their_parent_had() {
    if skipped() || !has("python3") {
        return;
    }
    let code = "import multiprocessing, os
data = [bytes([n % 251]) * 50000 for n in range(400)]
def work(n):
    return sum(len(part) * part[0] for part in data[n::4])
with multiprocessing.get_context('fork').Pool(4) as pool:
    print(sum(pool.map(work, range(4))))
child = os.fork()
if child == 0:
    data[0] = b'the child alone has this'
    os._exit(0 if sum(part[-1] for part in data[1:]) == sum(n % 251 for n in range(1, 400)) else 1)
data[7] = b'the parent alone has this'
print(os.waitpid(child, 0)[1], data[0][:2], len(data[7]))";
    agrees("8MiB", &["/usr/bin/env", "python3", "-c", code]);
}

#[test]
fn a_child_of_a_child_is_told_that_it_has_no_far_memory() {
    if skipped() || !has("perl") {
        return;
    }
    let code = "my @a = map { { id => $_ } } 1..1000;
if (!fork()) {
    if (!(my $child = fork())) { print $_->{id} for @a; exit 0 } else { waitpid($child, 0); print $? & 127; exit 0 }
}
wait(); print ' ', scalar(@a);";
    let ended = far(&["--buffer", "8MiB", "--quiet", "--", "perl", "-e", code]);
    assert_eq!((ended.code, ended.out.trim()), (Some(0), "11 1000"), "{}", ended.err);
    assert!(ended.err.contains("a child of a forked child has no far memory"), "{}", ended.err);
}

#[test]
fn numpy_computes() {
    if skipped() || !has("/usr/bin/python3") {
        return;
    }
    let code = "import numpy as np
r = np.random.default_rng(1)
a = r.integers(0, 1 << 40, 300000)
b = np.sort(a[r.permutation(len(a))])
print(int(b[::7].sum()), b[:5], (np.arange(90000).reshape(300, 300) @ np.ones((300, 3)))[:2])";
    let has_numpy = std::process::Command::new("/usr/bin/python3").args(["-c", "import numpy"]).output();
    if !has_numpy.is_ok_and(|ended| ended.status.success()) {
        println!("skipped: python3-numpy is not installed");
        return;
    }
    agrees("8MiB", &["/usr/bin/python3", "-c", code]);
}

#[test]
fn the_end_of_the_program_is_that_of_the_command() {
    if skipped() {
        return;
    }
    assert_eq!(far(&["--quiet", "--", "sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(far(&["--quiet", "--", "sh", "-c", "kill -TERM $$"]).code, None);
    let explained = run_outboard(&["far", "--dry-run", "--", "sort"]).succeeded();
    assert!(explained.contains("the program uses the C library's allocator"), "{explained}");
}

#[test]
fn children_have_far_memory_or_not() {
    if skipped() {
        return;
    }
    let processes = |children: &str| {
        let ended = far(&["--json", "--children", children, "--bypass", "none", "--", "env", "true"]);
        let figures: serde_json::Value = serde_json::from_str(ended.err.trim()).expect("one object");
        // `env` becomes the other program, which has a library of its own if it has any.
        figures["processes"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((processes("inherit"), processes("bypass")), (2, 1));
}
