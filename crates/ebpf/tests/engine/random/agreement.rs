//! All executors, and rbpf's interpreter where it can, see the same.

use std::sync::Arc;

use fastrand::Rng;
use outboard_ebpf::insn::encode;
use outboard_ebpf::text::disassemble;
use outboard_ebpf::{Engine, Exit, Parts, Program};

use super::drive::{Way, continuations, drive, go_on};
use super::forgery::{forge, spoil};
use super::generator::{Case, Generator};
use super::guard::guarded;
use super::{host, seeds};
use crate::executors::{compile_for_aarch64, executors};

/// The program of a case, unless it can never be right.
fn program(case: &Case) -> Option<Arc<Program>> {
    Program::new(case.parts.clone(), host::helpers()).ok().map(Arc::new)
}

fn describe(seed: u64, case: &Case) -> String {
    let text = disassemble(&case.parts, &host::helpers());
    format!("seed {seed}, fuel {}, context {:02x?}\n{text}", case.fuel, case.context)
}

/// How runs ended, to know that the generator makes some of each.
#[derive(Debug, Default)]
struct Tally {
    returned: u64,
    trapped: u64,
    refused: u64,
    waited: u64,
}

fn agree(seed: u64, case: &Case, program: &Arc<Program>, tally: &mut Tally) {
    if seed.is_multiple_of(16) {
        compile_for_aarch64(program);
    }
    let all = executors(program);
    let reference: &dyn Engine = &*all[0].1;
    let expected = drive(&[reference], case, Way::Straight);
    match expected.exit {
        Exit::Returned(_) => tally.returned += 1,
        _ => tally.trapped += 1,
    }
    for (name, executor) in &all {
        let seen = drive(&[&**executor], case, Way::Straight);
        assert_eq!(seen, expected, "{name}, {}", describe(seed, case));
        for way in [Way::InPlace, Way::AsBytes] {
            let seen = drive(&[&**executor, reference], case, way);
            assert_eq!(seen, expected, "{name} and back, {way:?}, {}", describe(seed, case));
            let seen = drive(&[reference, &**executor], case, way);
            assert_eq!(seen, expected, "{name} from elsewhere, {way:?}, {}", describe(seed, case));
        }
    }
    let mut rng = Rng::with_seed(!seed);
    for bytes in continuations(reference, case) {
        tally.waited += 1;
        let mut forged = bytes.clone();
        if rng.bool() {
            forge(&mut rng, &mut forged);
        } else {
            // Magic and hash stay, or it would be refused for them alone.
            spoil(&mut rng, &mut forged[36..]);
        }
        let expected = go_on(reference, &forged);
        for (name, executor) in &all {
            assert_eq!(
                go_on(&**executor, &forged),
                expected,
                "{name}, forged {forged:02x?}\n{}",
                describe(seed, case)
            );
        }
    }
}

#[test]
fn executors_agree_on_random_programs() {
    let mut tally = Tally::default();
    for seed in seeds(1_000) {
        let case = Generator::new(seed).case();
        match program(&case) {
            Some(program) => agree(seed, &case, &program, &mut tally),
            None => tally.refused += 1,
        }
    }
    println!("{tally:?}");
    let Tally { returned, trapped, refused, waited } = tally;
    let all = returned + trapped + refused;
    if all >= 1000 {
        let enough = all / 20;
        assert!(
            returned > enough && trapped > enough && waited > enough,
            "the generator makes all kinds: {tally:?}"
        );
        assert!(refused < all / 4, "the generator makes programs: {tally:?}");
    }
}

#[test]
fn executors_agree_on_programs_with_flipped_bits() {
    let mut tally = Tally::default();
    for seed in seeds(1_000) {
        let mut case = Generator::new(seed).case();
        let mut bytes = encode(&case.parts.code);
        spoil(&mut Rng::with_seed(seed), &mut bytes);
        let Ok(Parts { code, .. }) = Parts::from_bytes(&bytes) else {
            tally.refused += 1;
            continue;
        };
        case.parts.code = code;
        match program(&case) {
            Some(program) => agree(seed, &case, &program, &mut tally),
            None => tally.refused += 1,
        }
    }
    println!("{tally:?}");
}

#[test]
fn nothing_leaves_its_memory() {
    let allocations = guarded(|| {
        for seed in seeds(200).map(|seed| seed ^ 1 << 40) {
            let case = Generator::new(seed).case();
            if let Some(program) = program(&case) {
                agree(seed, &case, &program, &mut Tally::default());
            }
        }
    });
    assert!(allocations > 200, "{allocations} allocations were guarded");
}

#[test]
fn rbpf_sees_the_same_where_it_can() {
    let (mut same, mut all) = (0u64, 0u64);
    for seed in seeds(1_000) {
        let case = Generator::new(seed).portable_case();
        let Some(program) = program(&case) else { panic!("{}", describe(seed, &case)) };
        all += 1;
        let executors = executors(&program);
        let expected = drive(&[&*executors[0].1], &case, Way::Straight);
        // rbpf has no fuel, so only what ends can be given to it.
        let Exit::Returned(value) = expected.exit else { continue };
        let bytes = encode(&case.parts.code);
        let Ok(machine) = rbpf::EbpfVmRaw::new(Some(&bytes)) else { continue };
        let mut context = case.context.clone();
        match machine.execute_program(&mut context) {
            Ok(theirs) => assert_eq!(theirs, value, "{}", describe(seed, &case)),
            Err(error) => panic!("{error}\n{}", describe(seed, &case)),
        }
        same += 1;
    }
    println!("{same} of {all}");
    assert!(same >= all / 2, "{same} of {all} programs could be compared");
}
