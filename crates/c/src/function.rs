//! Functions as a caller makes them known.

use std::ffi::{c_char, c_void};

use outboard::{FunctionImage, FunctionOptions};

use crate::arguments::flags;
use crate::caller::{outboard_caller, outboard_function};
use crate::handles;
use crate::memory::{outboard_region, rights};
use crate::status::{Failure, outboard_status};
use crate::structures::sized;

/// A region that a function may use.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_function_region {
    /// The region. It was opened with these rights and OUTBOARD_CALL.
    pub region: *mut outboard_region,
    /// OUTBOARD_READ, OUTBOARD_WRITE and OUTBOARD_CALL, added up.
    pub rights: u32,
    /// Zero.
    pub reserved: u32,
}

/// A function: its code, as text or as an object file, and what it may use.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_function_options {
    /// sizeof(outboard_function_options)
    pub size: usize,
    /// In the text form of the eBPF engine, or NULL.
    pub text: *const c_char,
    /// The bytes of an object file that clang has made of C with -target bpf, or NULL.
    pub object: *const c_void,
    /// How many bytes it has.
    pub object_length: usize,
    /// The name of the function in it. NULL: "main".
    pub entry: *const c_char,
    /// How many instructions each call may take. 0: 100000.
    pub fuel: u64,
    /// The longest reply in bytes, at most 16 KiB. 0: 4 KiB.
    pub reply_max: u32,
    /// Zero.
    pub reserved: u32,
    /// The regions that it may use, which it knows by their places in this list.
    pub regions: *const outboard_function_region,
    /// How many there are.
    pub regions_count: usize,
}

sized!(outboard_function_options);

/// Makes a function known, which is sent to where it runs unless it is there.
///
/// options: the function.
/// function: is given its number.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_register(
    caller: *mut outboard_caller,
    options: *const outboard_function_options,
    function: *mut outboard_function,
) -> outboard_status {
    body!(|promise| {
        let out = promise.out("function", function)?;
        let given = promise.options(options)?;
        let text = promise.optional_text("outboard_function_options.text", given.text)?;
        let object = promise.bytes("outboard_function_options.object", given.object, given.object_length)?;
        let entry = promise.optional_text("outboard_function_options.entry", given.entry)?.unwrap_or("main");
        flags("outboard_function_options.reserved", given.reserved, 0)?;
        let image = match (text, object) {
            (Some(text), []) => FunctionImage::from_text(text, entry)?,
            (None, [_, ..]) => FunctionImage::from_object(object, entry)?,
            _ => return Err(Failure::invalid("a function is given as a text or as an object")),
        };
        let mut options = FunctionOptions::default();
        if given.fuel > 0 {
            options = options.with_fuel(given.fuel);
        }
        if given.reply_max > 0 {
            options = options.with_reply_max(given.reply_max);
        }
        let regions =
            promise.items("outboard_function_options.regions", given.regions, given.regions_count)?;
        for outboard_function_region { region, rights: allowed, reserved } in regions {
            flags("outboard_function_region.reserved", *reserved, 0)?;
            let allowed = rights("outboard_function_region.rights", *allowed)?;
            options = handles::shared(*region, |opened| Ok(options.with_region(&opened.region, allowed)))?;
        }
        let number = handles::alone(caller, |calls| {
            let handle = calls.caller.register(&image, options)?;
            calls.functions.push(handle);
            Ok(calls.functions.len() as u32 - 1)
        })?;
        out.put(number);
        Ok(())
    })
}
