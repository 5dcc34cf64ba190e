//! What must not be written is refused in the same words on both paths, and nothing of it is written.

use outboard::{AccessError, WriteError, WriteOptions, WritePath, Writer, WriterOptions};
use outboard_wire::Rights;

use crate::world::{Daemons, PART, memory, writer};
use outboard_e2e::PATIENCE;

const PATHS: [WritePath; 2] = [WritePath::Offload, WritePath::Unload];

/// What becomes of a write: the error of the call, or of its completion.
fn outcome(
    writer: &mut Writer,
    target: outboard::WriteTarget,
    path: WritePath,
    offset: u64,
    bytes: &[u8],
) -> Result<(), WriteError> {
    let options = WriteOptions { path: Some(path), signal: true, ..WriteOptions::default() };
    writer.write_with(target, offset, bytes, options)?;
    writer.wait(PATIENCE).expect("it ends").result
}

#[test]
fn bounds_lengths_and_rights_are_refused_alike() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let (mut memory, region, mut writer) = daemons.writer(&address, WriterOptions::default());
        let target = writer.open(&region).unwrap();
        let long = vec![1; writer.longest() + 1];
        let size = PART as u64;
        for (offset, bytes) in
            [(size, [1].as_slice()), (size - 3, &[1; 4]), (u64::MAX, &[1; 8]), (size + 1, &[]), (0, &long)]
        {
            let [one, other] =
                PATHS.map(|path| outcome(&mut writer, target, path, offset, bytes).unwrap_err());
            assert_eq!(one.to_string(), other.to_string());
        }
        // Nothing is nothing, wherever it is written to.
        for path in PATHS {
            outcome(&mut writer, target, path, size, &[]).unwrap();
        }
        let mut bytes = vec![1; PART];
        memory.read(&region, 0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "nothing was written");
        assert_eq!(writer.stats().failed, 0);
    }
}

#[test]
fn a_region_that_may_only_be_read_is_refused_alike() {
    let daemons = Daemons::start();
    for (number, address) in [daemons.shm(), daemons.tcp()].into_iter().enumerate() {
        let mut memory = memory(&address);
        let name = format!("read-only-{number}");
        let owned = memory.reserve_shared(PART as u64, &name).unwrap();
        memory.write(&owned, 0, b"as it was").unwrap();
        let region = memory.open_shared(&name, Rights::READ).unwrap();
        let mut writer = writer(&address, WriterOptions::default());
        let target = writer.open(&region).unwrap();
        let [one, other] = PATHS.map(|path| outcome(&mut writer, target, path, 0, b"other").unwrap_err());
        assert_eq!(one.to_string(), other.to_string());
        assert!(matches!(one, WriteError::Access(AccessError::NoRight { .. })), "{one}");
        let mut bytes = [0; 9];
        memory.read(&region, 0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"as it was");
    }
}

#[test]
fn a_key_that_is_wrong_or_stale_opens_nothing_on_either_path() {
    let daemons = Daemons::start();
    let address = daemons.tcp();
    let (mut memory, region, mut writer) = daemons.writer(&address, WriterOptions::default());
    let mut descriptor = region.descriptor().clone();
    descriptor.grant.key.0[0] ^= 1;
    let forged = region.clone().with_descriptor(descriptor);
    assert!(matches!(writer.open(&forged), Err(WriteError::Access(AccessError::NotOpen))));
    let mut descriptor = region.descriptor().clone();
    descriptor.grant.generation.0 += 1;
    let stale = region.clone().with_descriptor(descriptor);
    assert!(matches!(writer.open(&stale), Err(WriteError::Access(AccessError::NotOpen))));
    let target = writer.open(&region).unwrap();
    for path in PATHS {
        outcome(&mut writer, target, path, 0, b"while it lives").unwrap();
    }
    memory.free(region).unwrap();
    for path in PATHS {
        let refused = outcome(&mut writer, target, path, 0, b"afterwards").unwrap_err();
        assert!(matches!(refused, WriteError::Access(AccessError::NotOpen)), "{path}: {refused}");
    }
}

#[test]
fn a_flush_tells_of_the_first_write_that_failed_since_the_one_before() {
    let daemons = Daemons::start();
    let address = daemons.tcp();
    for path in PATHS {
        let options = WriterOptions { path: Some(path), ..WriterOptions::default() };
        let (mut memory, region, mut writer) = daemons.writer(&address, options);
        let target = writer.open(&region).unwrap();
        let other = memory.reserve(PART as u64, None).unwrap();
        let lasting = writer.open(&other).unwrap();
        memory.free(region).unwrap();
        writer.write(target, 0, b"too late").unwrap();
        writer.write(lasting, 0, b"in time").unwrap();
        assert!(matches!(writer.flush(), Err(WriteError::Access(AccessError::NotOpen))), "by {path}");
        writer.flush().expect("nothing has failed since");
        assert!(writer.poll().expect("it is told").result.is_err());
    }
}
