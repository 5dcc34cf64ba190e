//! The word of an aarch64 kernel to a signal handler about the access that has raised the signal.
//!
//! Records of any kinds lie one behind the other, each with its kind and length first. One has the syndrome register.

use outboard_paging::application::Cause;

const SYNDROME: u32 = 0x4553_5201;
const HEAD: usize = 8;
/// Bits of the register: the class of the exception, of which these are accesses to data; an operation on caches, which counts
/// as a store and is none; and a store.
const CLASS_SHIFT: u32 = 26;
const DATA_ABORTS: [u64; 2] = [0x24, 0x25];
const OF_CACHES: u64 = 1 << 8;
const STORE: u64 = 1 << 6;

/// Whether the access was a store. One of which nothing is told counts as a load.
pub(super) fn cause(mut records: &[u8]) -> Cause {
    while let Some((head, _)) = records.split_first_chunk::<HEAD>() {
        let [kind, len] =
            [0, 4].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        if kind == SYNDROME
            && let Some(register) = records.get(HEAD..).and_then(|rest| rest.first_chunk())
        {
            let register = u64::from_le_bytes(*register);
            let is_store = DATA_ABORTS.contains(&(register >> CLASS_SHIFT & 0x3f))
                && register & STORE != 0
                && register & OF_CACHES == 0;
            return if is_store { Cause::Write } else { Cause::Read };
        }
        // The last record has no length.
        match records.get(len as usize..) {
            Some(rest) if len as usize >= HEAD => records = rest,
            _ => break,
        }
    }
    Cause::Read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let len = (HEAD + body.len()) as u32;
        [&kind.to_le_bytes()[..], &len.to_le_bytes(), body].concat()
    }

    fn told(register: u64) -> Vec<u8> {
        let floats = record(0x4650_8001, &[7; 520]);
        [floats, record(SYNDROME, &register.to_le_bytes()), vec![0; 16]].concat()
    }

    #[test]
    fn stores_are_told_from_loads() {
        let of_user = DATA_ABORTS[0] << CLASS_SHIFT | 0x07;
        assert_eq!(cause(&told(of_user)), Cause::Read);
        assert_eq!(cause(&told(of_user | STORE)), Cause::Write);
        assert_eq!(cause(&told(of_user | STORE | OF_CACHES)), Cause::Read);
        let of_code = 0x20 << CLASS_SHIFT | STORE;
        assert_eq!(cause(&told(of_code)), Cause::Read);
    }

    #[test]
    fn records_that_tell_nothing_end() {
        let cut = &told(DATA_ABORTS[0] << CLASS_SHIFT | STORE)[..540];
        for records in [&[][..], &[0; 64], &record(7, &[]), &7_u64.to_le_bytes(), cut] {
            assert_eq!(cause(records), Cause::Read);
        }
    }
}
