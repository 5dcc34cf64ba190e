//! The structures of libfabric that were written down by hand are those of the headers that are installed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use outboard_link::ofi::layout::LAYOUT;

const INCLUDES: &str = "#include <stddef.h>
#include <stdio.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
";

/// Runs the compiler on `source` and returns whether it was content.
fn compile(source: &str, arguments: &[&str]) -> std::io::Result<bool> {
    let mut compiler =
        Command::new("cc").args(["-x", "c", "-"]).args(arguments).stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = compiler.stdin.take() {
        input.write_all(source.as_bytes())?;
    }
    Ok(compiler.wait()?.success())
}

#[test]
fn structures_lie_as_the_headers_say() {
    if !compile(INCLUDES, &["-fsyntax-only"]).unwrap_or(false) {
        println!("skipped: no C compiler, or no headers: sudo apt install gcc libfabric-dev");
        return;
    }
    let mut source = format!("{INCLUDES}int main(void) {{\n");
    for (expression, _) in LAYOUT {
        writeln!(source, "printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    source.push_str("return 0; }\n");
    let folder = std::env::temp_dir().join(format!("outboard-headers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("layout");
    assert!(
        compile(&source, &["-o", program.to_str().unwrap()]).unwrap(),
        "the headers lack something that is used"
    );
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(theirs.len(), LAYOUT.len());
    for ((expression, ours), theirs) in LAYOUT.iter().zip(theirs) {
        assert_eq!(*ours, theirs, "{expression}");
    }
}
