//! Objects from clang, see `tests/objects`.

use std::sync::Arc;

use fastrand::Rng;
use outboard_ebpf::elf::{ElfError, load};
use outboard_ebpf::{
    Argument, Exit, Helper, HelperAnswer, HelperHost, HelperMemory, Helpers, Instance, Program, ProgramError,
    Returns,
};

use crate::executors::{FUEL, compile_for_aarch64, executors};

macro_rules! object {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../objects/", $name, ".o")).as_slice())
    };
}

const FUNCTIONS: [(&str, &[u8]); 4] =
    [object!("functions-v1"), object!("functions-v2"), object!("functions-v3"), object!("functions-v4")];
const MODERN: (&str, &[u8]) = object!("modern-v4");
const LOOKUP: (&str, &[u8]) = object!("lookup-v3");

/// The kind of sections with relocations without addends.
const RELOCATIONS: u32 = 9;

struct Site;

impl HelperHost for Site {
    fn call(&mut self, helper: &Helper, &arguments: &[u64; 5], _: &mut HelperMemory<'_>) -> HelperAnswer {
        match helper.name.as_str() {
            "ask" => HelperAnswer::Value(arguments[0].wrapping_mul(arguments[1])),
            _ => HelperAnswer::Value(arguments[0].wrapping_add(1)),
        }
    }
}

fn helpers() -> Helpers {
    let helper = |id, name: &str, arguments| Helper {
        id,
        name: name.to_owned(),
        arguments: vec![Argument::Scalar; arguments],
        returns: Returns::Scalar,
        may_suspend: false,
    };
    Helpers::new(vec![helper(77, "ask", 2), helper(9, "tell", 1)]).unwrap()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Runs a function on all executors, twice in one instance.
fn call(program: &Arc<Program>, name: &str, context: &[u8]) -> (u64, Vec<u8>) {
    let function = program.entry(name).unwrap_or_else(|| panic!("no {name}"));
    compile_for_aarch64(program);
    let mut results = Vec::new();
    for (_, executor) in executors(program) {
        let mut instance = Instance::default();
        for _ in 0..2 {
            instance.set_context(context).unwrap();
            match executor.start(&mut instance, function, &mut Site, FUEL) {
                Exit::Returned(value) => results.push((value, instance.context().to_vec())),
                exit => panic!("{name}: {exit:?}"),
            }
        }
    }
    results.windows(2).for_each(|pair| assert_eq!(pair[0], pair[1], "{name}"));
    results.swap_remove(0)
}

#[test]
fn functions_give_what_their_sources_say() {
    const WEIGHTS: [u64; 8] = [3, 1, 4, 1, 5, 9, 2, 6];
    let weigh =
        |bytes: &[u8]| bytes.iter().zip(WEIGHTS.iter().cycle()).map(|(b, w)| u64::from(*b) * w).sum::<u64>();
    for (object, bytes) in FUNCTIONS {
        let program = Arc::new(load(bytes, &helpers()).unwrap_or_else(|error| panic!("{object}: {error}")));
        let text: Vec<u8> = (0..29).map(|number| number * 9).collect();
        assert_eq!(call(&program, "checksum", &text).0, weigh(&text) + 11, "{object}");
        assert_eq!(call(&program, "count", &words(&[2])).0, 42 + 42, "{object}");
        for (number, letter) in [(0, b'f'), (1, b'n'), (2, b'h'), (5, b'h')] {
            assert_eq!(call(&program, "letter", &words(&[number])).0, letter.into(), "{object}");
        }
        let signs = words(&[0xffff_ff80_ffff_fffb]);
        assert_eq!(call(&program, "signs", &signs).0, (-5000i64 - 128 - 128) as u64, "{object}");
        let value = 0x1122_3344_5566_7788u64;
        let swapped = 0x8877 + 0x8877_6655 + 0x8877_6655_4433_2211u64;
        assert_eq!(call(&program, "swaps", &words(&[value])).0, swapped, "{object}");
        let expected = weigh(&words(&[12])) + 84 + 85 + 5;
        assert_eq!(call(&program, "outside", &words(&[12])).0, expected, "{object}");
    }
}

#[test]
fn newer_instructions_come_from_clang_too() {
    let program = Arc::new(load(MODERN.1, &helpers()).unwrap());
    let divide =
        |left: i64, right: i64| call(&program, "divide", &words(&[left as u64, right as u64])).0 as i64;
    assert_eq!(divide(-43, 6), -7001);
    assert_eq!(divide(43, -6), -6999);
    assert_eq!(divide(43, 0), 43);
    let narrow = words(&[(-43i32 as u32 as u64) | 6 << 32]);
    assert_eq!(call(&program, "divide_narrow", &narrow).0 as i32, -7001);
    let (value, context) = call(&program, "exchange", &words(&[1, 7, 0x1_0000_0000, 3]));
    assert_eq!(value, 1 + 70 + 3000);
    assert_eq!(context, words(&[6, 9, 0x1_0000_00ff, 1]));
}

#[test]
fn a_bucket_is_looked_up() {
    let program = Arc::new(load(LOOKUP.1, &helpers()).unwrap());
    let key = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210u64];
    let tag = ((key[0] ^ key[1].rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    for hit in 0..8 {
        let mut tags = [!tag; 8];
        tags[hit] = tag;
        let mut context = words(&key);
        context.extend(tags);
        context.extend(words(&[10, 11, 12, 13, 14, 15, 16]));
        assert_eq!(call(&program, "bucket_lookup", &context).0, if hit < 7 { 10 + hit as u64 } else { 0 });
    }
}

#[test]
fn names_of_unknown_helpers_are_told_with_their_place() {
    let error = load(FUNCTIONS[3].1, &Helpers::default()).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("section `elsewhere`, offset 0x"), "{message}");
    assert!(message.ends_with("`ask` is not defined, and is no helper"), "{message}");

    let mut only_ask = helpers().all().to_vec();
    only_ask.retain(|helper| helper.name == "ask");
    let error = load(FUNCTIONS[3].1, &Helpers::new(only_ask).unwrap()).unwrap_err();
    let ElfError::At { section, offset, error: ProgramError::UnknownHelper { id: 9, .. } } = error else {
        panic!("{error:?}")
    };
    assert_eq!(section, "elsewhere");
    assert!(offset > 0 && offset.is_multiple_of(8));
}

#[test]
fn what_is_no_object_is_refused() {
    assert!(matches!(load(&[], &helpers()), Err(ElfError::File { offset: 0, .. })));
    assert!(matches!(load(b"\x7fELF", &helpers()), Err(ElfError::File { offset: 0, .. })));
    for (machine, name) in [(62, "x86-64"), (183, "aarch64"), (99, "machine number 99")] {
        // Objects for other machines have relocations with addends, which are not what is wrong with them.
        let mut other = spoiled(LOOKUP.1, RELOCATIONS, (4, &4u32.to_le_bytes()));
        other[18] = machine;
        let message = load(&other, &helpers()).unwrap_err().to_string();
        let expected = format!(
            "this is an object for {name}, not an object for BPF: compile with `clang -target bpf -c`"
        );
        assert_eq!(message, expected);
    }
    let mut linked = LOOKUP.1.to_vec();
    linked[16] = 2;
    assert!(load(&linked, &helpers()).unwrap_err().to_string().contains("a program or library for BPF"));
    for length in 0..LOOKUP.1.len() {
        let message = load(&LOOKUP.1[..length], &helpers()).unwrap_err().to_string();
        assert!(message.contains("offset"), "cut off at {length}: {message}");
    }
    let mut big_endian = LOOKUP.1.to_vec();
    big_endian[5] = 2;
    big_endian[18..20].copy_from_slice(&247u16.to_be_bytes());
    assert!(load(&big_endian, &helpers()).unwrap_err().to_string().contains("for big-endian BPF"));
}

/// Changes fields of the headers of all sections of a kind: where in the header, and to what.
fn spoiled(object: &[u8], kind: u32, (at, value): (usize, &[u8])) -> Vec<u8> {
    let mut bytes = object.to_vec();
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let count = u16::from_le_bytes(bytes[60..62].try_into().unwrap()) as usize;
    for section in (0..count).map(|index| table + 64 * index) {
        if bytes[section + 4..section + 8] == kind.to_le_bytes() {
            bytes[section + at..section + at + value.len()].copy_from_slice(value);
        }
    }
    bytes
}

#[test]
fn sections_that_cannot_be_read_are_named_and_never_left_out() {
    const SYMBOLS: u32 = 2;
    let far = 0x1000_0003u64.to_le_bytes();
    let cases: [(u32, (usize, &[u8])); 9] = [
        (RELOCATIONS, (24, &far)),
        (RELOCATIONS, (32, &far)),
        (RELOCATIONS, (32, &17u64.to_le_bytes())),
        (RELOCATIONS, (32, &8u64.to_le_bytes())),
        (RELOCATIONS, (40, &0xffffu32.to_le_bytes())),
        (RELOCATIONS, (44, &0u32.to_le_bytes())),
        (RELOCATIONS, (4, &4u32.to_le_bytes())),
        (SYMBOLS, (40, &0xffffu32.to_le_bytes())),
        (SYMBOLS, (24, &far)),
    ];
    for (kind, change) in cases {
        let error = load(&spoiled(FUNCTIONS[3].1, kind, change), &helpers()).unwrap_err();
        let ElfError::Section { section, offset, .. } = &error else { panic!("{change:?}: {error}") };
        assert!(!section.is_empty() && *offset > 0, "{error}");
        assert!(error.to_string().starts_with("section `."), "{error}");
    }
}

#[test]
fn spoiled_objects_are_refused_or_run_safely() {
    let (mut refused, mut ran) = (0, 0);
    for seed in 0..1000 {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = if seed % 2 == 0 { FUNCTIONS[3].1.to_vec() } else { MODERN.1.to_vec() };
        for _ in 0..rng.usize(1..4) {
            let place = rng.usize(..bytes.len());
            bytes[place] = if rng.bool() { rng.u8(..) } else { bytes[place] ^ 1 << rng.u8(..8) };
        }
        let Ok(program) = load(&bytes, &helpers()) else {
            refused += 1;
            continue;
        };
        ran += 1;
        let program = Arc::new(program);
        let names: Vec<&str> =
            program.functions().iter().filter(|f| f.is_entry).map(|f| f.name.as_str()).collect();
        for name in names {
            let mut exits = Vec::new();
            for (_, executor) in executors(&program) {
                let mut instance = Instance::default();
                instance.set_context(&[0x5a; 32]).unwrap();
                let exit = executor.start(&mut instance, program.entry(name).unwrap(), &mut Site, 2000);
                exits.push((exit, instance.fuel(), instance.context().to_vec()));
            }
            exits.windows(2).for_each(|pair| assert_eq!(pair[0], pair[1], "seed {seed}, {name}"));
        }
    }
    assert!(refused > 50 && ran > 50, "{refused} refused, {ran} ran");
}
