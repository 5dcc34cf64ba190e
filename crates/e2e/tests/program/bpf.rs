//! `outboard bpf` as people and scripts use it.

use std::io::{Read, Write};
use std::process::Stdio;

use outboard_e2e::{Ended, outboard, program};
use serde_json::Value;

macro_rules! object {
    ($name:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../ebpf/tests/objects/", $name, ".o")
    };
}

const FUNCTIONS: &str = object!("functions-v4");
const HELPERS: &str = object!("helpers-v3");
const LOOKUP: &str = object!("lookup-v3");
const OTHERS: [&str; 4] = ["--helper", "77:ask=84", "--helper", "9:tell=0x55"];

const SUM: &str = "
    .entry sum
        mov r0, 0
    next:
        jeq r2, 0, done
        ldxb r3, [r1+0]
        add r0, r3
        add r1, 1
        sub r2, 1
        ja next
    done:
        exit";
/// `mov r0, 7` and `exit`.
const SEVEN: &str = "b700000007000000\n9500000000000000\n";
const ENGINES: [&str; 2] = ["interpreter", "compiled"];

fn run(arguments: &[&str], input: &[u8]) -> Ended {
    let mut command = outboard(&["bpf"]);
    command.args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that refuses its arguments reads nothing.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    child.wait_with_output().expect("the program ends").into()
}

#[track_caller]
fn done(arguments: &[&str], input: &[u8]) -> String {
    run(arguments, input).succeeded()
}

#[track_caller]
fn json(arguments: &[&str], input: &[u8]) -> Value {
    let printed = done(&[arguments, &["--json"]].concat(), input);
    serde_json::from_str(&printed).expect("the program prints JSON")
}

#[track_caller]
fn refused(code: i32, arguments: &[&str], input: &[u8], part: &str) {
    run(arguments, input).refused(code, part);
}

#[test]
fn help_has_examples_for_every_command() {
    for command in
        [&["--help"][..], &["check", "--help"], &["run", "--help"], &["disasm", "--help"], &["asm", "--help"]]
    {
        assert!(done(command, b"").contains("Examples:"), "{command:?}");
    }
}

#[test]
fn check_tells_proofs_checks_loops_and_fuel_beside_the_instructions() {
    let told = done(&["check", LOOKUP], b"");
    assert!(
        told.contains("function bucket_lookup: 10 accesses proven, 0 checked, at most 37 fuel"),
        "{told}"
    );
    assert!(told.contains("proofs need 80 bytes of memory"), "{told}");
    assert!(told.contains("ldxdw r2, [r1+8]") && told.contains("proven: context +8"), "{told}");

    let sum = json(&["check", "-"], SUM.as_bytes());
    let function = &sum["functions"][0];
    assert_eq!((&function["name"], &function["checked"]), (&"sum".into(), &1.into()));
    let access = &function["instructions"][2];
    assert_eq!(access["text"], "ldxb r3, [r1+0]");
    assert_eq!(access["access"]["verdict"], "checked");
    assert!(access["access"]["why"].as_str().unwrap().starts_with("checked: "), "{access}");
    assert_eq!(function["loops"][0]["start"], 1);

    let bounded = "mov r1, 0\nagain:\nadd r1, 1\njlt r1, 100, again\nexit";
    let function = &json(&["check", "-"], bounded.as_bytes())["functions"][0];
    assert_eq!(function["loops"][0]["bounded"], true);
    assert!(function["fuel_max"].as_u64().unwrap() >= 202, "{function}");
    let endless = "mov r0, 1\nagain:\nmul r0, 3\njne r0, 0, again\nexit";
    let function = &json(&["check", "-"], endless.as_bytes())["functions"][0];
    assert_eq!((&function["loops"][0]["bounded"], &function["fuel_max"]), (&false.into(), &Value::Null));
    let told = done(&["check", "-"], endless.as_bytes());
    assert!(told.contains("fuel not bounded") && told.contains("loop: not bounded, pays fuel"), "{told}");
}

#[test]
fn check_refuses_what_can_never_be_right_and_says_where() {
    refused(
        1,
        &["check", FUNCTIONS],
        b"",
        "section `elsewhere`, offset 0x18: `ask` is not defined, and is no helper",
    );
    done(&[&["check", FUNCTIONS], &OTHERS[..]].concat(), b"");
    refused(1, &["check", "-"], b"mov r0, 7", "standard input: instruction 0: the function `main` goes on");
    refused(1, &["check", "-"], b"mov r0, 7\nfrob r1", "line 2: there is no instruction `frob`");
    let writes_r10 = b"b700000000000000 b70a000000000000 9500000000000000";
    refused(1, &["check", "-"], writes_r10, "offset 0x8: instruction 1: writes r10");
    refused(1, &["check", "-"], &[0xff; 8], "offset 0x0: instruction 0: opcode 0xff");
    refused(1, &["check", "-"], b"", "the program is empty");
    refused(1, &["check", "-"], b"\x7fELF and nothing else", "not an ELF object");
    refused(1, &["check", "no-such-file"], b"", "cannot read no-such-file");
    refused(2, &["check", "-", "--helper", "ask"], b"", "ID:NAME");
    refused(2, &["check", "-", "--helper", "1:ask"], b"", "two helpers have the number 1");
    refused(2, &["check"], b"", "<FILE>");
}

/// A function that was written for callers: it reads a region and replies.
const KV: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/kv/functions/kv-v3.o");
const READS: &str = "mov r1, 0\nmov r2, 8\nmov r3, r10\nadd r3, -8\nmov r4, 8\ncall region_read\nexit";

#[test]
fn functions_for_callers_are_checked_and_run_with_made_up_answers() {
    assert!(done(&["check", KV], b"").contains("may be suspended"));
    assert!(done(&["disasm", KV], b"").contains("call region_fetch"));
    assert!(done(&["check", "-"], READS.as_bytes()).contains("may be suspended"));
    for engine in ENGINES {
        let run_here = ["run", "-", "--engine", engine];
        refused(1, &run_here, READS.as_bytes(), "give it an answer with --helper 16:region_read=VALUE");
        let answered = [&run_here[..], &["--helper", "16:region_read=5"]].concat();
        assert_eq!(done(&answered, READS.as_bytes()), "0x5\n");
    }
}

#[test]
fn an_object_for_another_machine_is_named() {
    // Its beginning says it: the whole is longer than any program for BPF.
    let mut own = vec![0; 4096];
    let mut file = std::fs::File::open(program()).expect("the program is there");
    file.read_exact(&mut own).expect("it is longer than that");
    let machine = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86-64" };
    refused(1, &["check", "-"], &own, &format!("a program or library for {machine}, not an object for BPF"));
}

#[test]
fn run_prints_the_result_of_every_form_on_both_engines() {
    for engine in ENGINES {
        let on = |program, more: &[&str], input: &[u8]| {
            done(&[&["run", "--engine", engine, program], more].concat(), input)
        };
        assert_eq!(on("-", &[], SEVEN.as_bytes()), "0x7\n");
        assert_eq!(on("-", &["--memory", "01 02 ff"], SUM.as_bytes()), "0x102\n");
        let bytes = [0xb7, 0, 0, 0, 9, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(on("-", &[], &bytes), "0x9\n");
        assert_eq!(
            on(
                FUNCTIONS,
                &[&OTHERS[..], &["--entry", "count", "--memory", "0200000000000000"]].concat(),
                b""
            ),
            "0x54\n"
        );
        // Two helpers that were declared on the command line, 12 times 3, and the third prime.
        let expected = format!("{:#x}\n", 12 * 3 + 84 + 0x55 + 5);
        let outside = ["--entry", "outside", "--memory", "0c00000000000000"];
        assert_eq!(on(FUNCTIONS, &[&OTHERS[..], &outside].concat(), b""), expected);
    }
}

#[test]
fn run_takes_memory_from_a_file_and_gives_it_back_as_it_was_left() {
    let file = std::env::temp_dir().join(format!("outboard-cli-bpf-{}", std::process::id()));
    std::fs::write(&file, [1, 2, 3]).expect("a temporary file");
    let program = b"stb [r1+1], 255\nmov r0, r2\nexit";
    let path = file.to_str().expect("a plain path");
    let report = json(&["run", "-", "--memory-file", path], program);
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!((&report["result"], &report["memory"]), (&"0x3".into(), &"01ff03".into()));
    assert_eq!(report["fuel_used"], 3);
}

#[test]
fn run_has_the_helpers_of_the_header() {
    for engine in ENGINES {
        let on = |entry: &str| {
            run(&["run", HELPERS, "--engine", engine, "--memory", "010203", "--entry", entry], b"")
        };
        let sum = on("sum");
        assert_eq!(sum.out, "0x6\n");
        assert!(sum.err.starts_with("log: sum of the context\n"), "{}", sum.err);
        assert!(sum.err.ends_with(" fuel used\n"), "{}", sum.err);
        assert_eq!(on("site").out, "0x1\n");
        let wild = on("wild");
        assert_eq!(wild.code, Some(1));
        assert!(wild.err.contains("call outboard_log"), "{}", wild.err);
    }
}

#[test]
fn run_tells_the_instruction_the_address_and_the_reason_of_a_trap() {
    for engine in ENGINES {
        let run_here = ["run", "-", "--engine", engine];
        let outside = b"mov r0, 0\nldxw r0, [r1+2]\nexit";
        let message = "trap in `main`, instruction 1 `ldxw r0, [r1+2]`: 4 bytes at 0x100000002 are outside";
        refused(1, &[&run_here[..], &["--memory", "01020304"]].concat(), outside, message);
        let endless = b"again:\nja again\nexit";
        refused(1, &[&run_here[..], &["--fuel", "100"]].concat(), endless, "out of fuel, after 100 fuel");

        let output = run(&[&run_here[..], &["--memory", "01020304", "--json"]].concat(), outside);
        assert_eq!(output.code, Some(1));
        let report: Value = serde_json::from_str(&output.out).expect("JSON, also of a trap");
        assert_eq!(
            (&report["trap"]["index"], &report["trap"]["address"]),
            (&1.into(), &"0x100000002".into())
        );
        assert!(output.err.contains("trap in `main`"));
    }
}

#[test]
fn run_says_what_is_wrong_with_its_arguments() {
    refused(2, &["run"], b"", "<FILE>");
    refused(2, &["run", "-", "--memory", "0"], b"", "two digits each");
    refused(2, &["run", "-", "--memory", "xy"], b"", "bytes in hex");
    refused(2, &["run", "-", "--engine", "fast"], b"", "interpreter");
    refused(2, &["run", "-", "--memory-file", "-"], b"", "cannot be both");
    refused(2, &["run", LOOKUP, "--entry", "sum"], b"", "but bucket_lookup");
    refused(2, &["run", HELPERS], b"", "choose one with --entry: sum, site, wild");
    refused(1, &["run", "-"], b"mov r10, 7\nexit", "writes r10");
}

#[test]
fn what_is_disassembled_is_the_same_program() {
    assert_eq!(done(&["disasm", "-"], SEVEN.as_bytes()), ".entry main\n    mov r0, 7\n    exit\n");
    let hash = |file, input: &[u8]| json(&[&["check", file], &OTHERS[..]].concat(), input)["program"].clone();
    for object in [LOOKUP, HELPERS, FUNCTIONS] {
        let listing = done(&[&["disasm", object], &OTHERS[..]].concat(), b"");
        assert_eq!(hash("-", listing.as_bytes()), hash(object, b""), "{object}");
    }
    let listed = json(&["disasm", "-"], SUM.as_bytes());
    assert_eq!(
        (&listed["entries"][0]["name"], &listed["instructions"][0]["text"]),
        (&"sum".into(), &"mov r0, 0".into())
    );
    refused(1, &["disasm", "-"], b"ff00", "offset 0x0: instruction 0");
    refused(1, &["disasm", FUNCTIONS], b"", "section `elsewhere`, offset 0x18");
}

#[test]
fn what_is_assembled_is_the_same_code() {
    assert_eq!(done(&["asm", "-"], b"mov r0, 7\nexit"), SEVEN);
    let listing = done(&["disasm", LOOKUP], b"");
    let hex = done(&["asm", "-"], listing.as_bytes());
    let listing_of_hex = done(&["disasm", "-"], hex.as_bytes());
    assert_eq!(listing_of_hex.replace(".entry main", ".entry bucket_lookup"), listing);
    let report = json(&["asm", "-"], b"lddw r0, 0x1122334455667788\nexit");
    assert_eq!(
        (&report["slots"], &report["code"]),
        (&3.into(), &"180000008877665500000000443322119500000000000000".into())
    );

    let file = std::env::temp_dir().join(format!("outboard-cli-asm-{}", std::process::id()));
    let path = file.to_str().expect("a plain path");
    assert_eq!(done(&["asm", "-", "--output", path], b"mov r0, 7\nexit"), "");
    assert_eq!(done(&["run", path], b""), "0x7\n");
    refused(
        1,
        &["asm", "-", "--output", path],
        b"mov r0, 8\nexit",
        "exists already; replace it with --force",
    );
    assert_eq!(done(&["asm", "-", "--output", path, "--force"], b"mov r0, 7\nexit"), "");
    assert_eq!(done(&["run", "--program", path], b""), "0x7\n", "as it was written before");
    std::fs::remove_file(&file).expect("it was written");
}

#[test]
fn asm_refuses_what_bytes_cannot_say() {
    refused(1, &["asm", "-"], b"mov r0\nexit", "line 1: expected 2 operands, found 1");
    refused(1, &["asm", "-"], b"ja nowhere\nexit", "line 1: there is no label `nowhere`");
    refused(1, &["asm", "-"], b"call ask\nexit", "line 1: there is no helper `ask`");
    refused(1, &["asm", "-"], b".rodata 00\nexit", "constants or variables");
    refused(1, &["asm", "-"], b".entry a\nexit\n.entry b\nexit", "starts elsewhere");
    refused(1, &["asm", "-"], b"; nothing", "no instructions");
    refused(1, &["asm", LOOKUP], b"", "is not a text");
}
