//! libFuzzer around the target that the environment variable `OUTBOARD_FUZZ_TARGET` names.
//!
//! Built with coverage instrumentation by `cargo xtask fuzz`; plain `cargo build` leaves it out.
#![no_main]

use std::sync::LazyLock;

use outboard_fuzz::FuzzTarget;

static TARGET: LazyLock<&FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("OUTBOARD_FUZZ_TARGET").unwrap_or_default();
    outboard_fuzz::find(&name).unwrap_or_else(|| {
        panic!("OUTBOARD_FUZZ_TARGET=`{name}` is no target; run `cargo xtask fuzz --list`")
    })
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (TARGET.run)(input);
});
