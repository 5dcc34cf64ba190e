//! Programs that a library cannot be loaded into are refused before they start, with the reason.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use outboard_e2e::{Folder, beside_tests};

use crate::{far, has};

#[test]
fn a_static_program_is_refused() {
    if !beside_tests("liboutboard_preload.so").is_file() || !has("gcc") {
        return;
    }
    let folder = Folder::new();
    folder.write("one.c", "int main(void) { return 0; }\n");
    let (source, program) = (folder.path().join("one.c"), folder.path().join("one"));
    let made = Command::new("gcc").arg("-static").arg(&source).arg("-o").arg(&program).output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("skipped: gcc links nothing statically here");
        return;
    }
    far(&["--", &program.display().to_string()]).refused(1, "linked statically");
}

#[test]
fn what_is_no_program_is_refused() {
    let folder = Folder::new();
    folder.write("text", "hello\n");
    let file = folder.path().join("text");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    far(&["--", &file.display().to_string()]).refused(1, "neither a program of this system nor a script");
    far(&["--", "/no/such/program"]).refused(1, "there is no program");
    far(&["--buffer", "much", "--", "true"]).failed(2, &["is no amount of memory"]);
}
