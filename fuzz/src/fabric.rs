//! What two sides of a link over a fabric say to each other before it.

use outboard_link::ofi::raw::{offer_preface, read_preface};

use crate::FuzzVerdict;
use crate::wire::refused;

pub(crate) fn preface(bytes: &[u8]) -> FuzzVerdict {
    match read_preface(bytes) {
        Ok(again) => {
            // What stands behind the names means nothing.
            assert_eq!(read_preface(&again).ok(), Some(again));
            FuzzVerdict::Decoded
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn preface_seeds() -> Vec<Vec<u8>> {
    vec![offer_preface("tcp;ofi_rxm", &[2, 0, 1, 127]), offer_preface("", b"there is no fabric")]
}
