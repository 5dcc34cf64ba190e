use std::sync::LazyLock;

use super::*;
use crate::helper::Helpers;
use crate::program::Program;
use crate::text::assemble;

static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let text = ".rodata 0102030405060708\n.data 0a0b\nexit";
    let helpers = Helpers::default();
    Program::new(assemble(text, &helpers).unwrap(), helpers).unwrap()
});

fn memory() -> ProgramMemory {
    let mut memory = ProgramMemory::new(ProgramLimits { context: 32, grant: 16 });
    // SAFETY: the program is never freed.
    unsafe { memory.bind(&PROGRAM) };
    memory.begin(&PROGRAM, || true);
    memory
}

#[test]
fn every_area_is_where_its_address_says() {
    let mut memory = memory();
    memory.set_context(&[7; 5]).unwrap();
    memory.push_frame(0);
    memory.grant(10, 3).unwrap().copy_from_slice(&[1, 2, 3]);
    assert_eq!(memory.read(CONTEXT, 5), Ok(&[7; 5][..]));
    assert_eq!(memory.read(STACK, FRAME_LEN), Ok(&[0; FRAME_LEN][..]));
    assert_eq!(memory.load(RODATA + 6), Ok([7, 8]));
    assert_eq!(memory.load(DATA), Ok([0x0a, 0x0b]));
    assert_eq!(memory.load(grant_address(10)), Ok([1, 2, 3]));
    memory.store(frame_end(0) - 2, [8, 9]).unwrap();
    assert_eq!(memory.frame(0)[FRAME_LEN - 2..], [8, 9]);
}

#[test]
fn nothing_lies_between_areas() {
    let memory = memory();
    for address in
        [0, 8, CONTEXT, STACK, RODATA + 8, DATA + 2, grant_address(0), area_address(AREAS), u64::MAX]
    {
        assert_eq!(
            memory.load::<1>(address),
            Err(MemoryFault::Outside { address, length: 1 }),
            "{address:#x}"
        );
    }
    let address = RODATA - 1;
    assert_eq!(memory.load::<2>(address), Err(MemoryFault::Outside { address, length: 2 }));
    assert_eq!(
        memory.read(RODATA, usize::MAX),
        Err(MemoryFault::Outside { address: RODATA, length: u64::MAX })
    );
    assert_eq!(memory.read(u64::MAX, 0), Ok(&[][..]));
}

#[test]
fn constants_cannot_be_written() {
    let mut memory = memory();
    let fault = MemoryFault::ReadOnly { address: RODATA, length: 4 };
    assert_eq!(memory.store(RODATA, [0; 4]), Err(fault));
    assert_eq!(memory.write(RODATA, 4).map(|bytes| bytes.len()), Err(fault));
    let address = RODATA + 6;
    assert_eq!(memory.store(address, [0; 4]), Err(MemoryFault::Outside { address, length: 4 }));
}

#[test]
fn frames_that_are_left_are_gone_and_come_back_clean() {
    let mut memory = memory();
    memory.push_frame(0);
    memory.push_frame(1);
    memory.store(frame_end(1) - 1, [5]).unwrap();
    memory.set_frames(1);
    assert!(memory.load::<1>(frame_end(1) - 1).is_err());
    memory.push_frame(1);
    assert_eq!(memory.load(frame_end(1) - 1), Ok([0]));
}

#[test]
fn a_new_run_has_no_grants_and_new_variables() {
    let mut memory = memory();
    memory.grant(0, 4).unwrap().fill(1);
    memory.store(DATA, [1]).unwrap();
    memory.begin(&PROGRAM, || true);
    assert_eq!(memory.length_of_grant(0), 0);
    assert_eq!(memory.load(DATA), Ok([0x0a]));
    memory.begin(&PROGRAM, || false);
    assert!(memory.load::<1>(DATA).is_err(), "a function that may be suspended has no variables");
    // What is granted anew has nothing of what was there.
    assert_eq!(memory.grant(0, 4).unwrap(), [0; 4]);
}

#[test]
fn limits_are_kept() {
    let mut memory = memory();
    assert_eq!(memory.set_context(&[0; 33]), Err(32));
    assert_eq!(memory.grant(0, 17).unwrap_err(), ReachError::TooLong { length: 17, limit: 16 });
    assert_eq!(memory.set_context(&[0; 32]), Ok(()));
    assert!(memory.grant(0, 16).is_ok());
}

#[test]
fn pointers_of_the_table_outlive_borrows_of_the_buffers() {
    let mut memory = memory();
    memory.set_context(&[0; 8]).unwrap();
    memory.store(CONTEXT, [1]).unwrap();
    memory.context_mut()[1] = 2;
    memory.store(CONTEXT + 2, [3]).unwrap();
    assert_eq!(memory.context()[..3], [1, 2, 3]);
    memory.write(CONTEXT, 8).unwrap().fill(4);
    assert_eq!(memory.load(CONTEXT + 7), Ok([4]));
}
