//! The words of each side about its endpoint, before anything else, on the socket beside the fabric.

use outboard_wire::{DecodeError, Versions};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::endpoint::NAME_MAX;

/// The fewest messages on their way: half of them are told of at once when they were taken, and two are kept for that.
pub(super) const SLOTS_MIN: usize = 8;
/// The most.
pub(super) const SLOTS_MAX: usize = 1024;
/// The shortest message worth sending.
pub(super) const SLOT_BYTES_MIN: usize = 1 << 10;
/// The longest.
pub(super) const SLOT_BYTES_MAX: usize = 1 << 20;

/// The longest name of a provider.
const PROVIDER_MAX: usize = 62;
/// `outb-ofi`, the first bytes of a preface.
const MAGIC: u64 = u64::from_le_bytes(*b"outb-ofi");

/// The words of one side about its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Preface {
    /// Which versions of the protocol it speaks. What its endpoint sends and understands is a matter of these too.
    pub(super) versions: Versions,
    /// The provider that moves its bytes. Empty if it has no endpoint to offer.
    pub(super) provider: String,
    /// Where its endpoint is, in a form that only its provider reads.
    pub(super) name: Vec<u8>,
    /// How many messages it has places for.
    pub(super) slots: usize,
    /// How long they are.
    pub(super) slot_bytes: usize,
    /// Whether it must be woken by the socket, because its provider cannot.
    pub(super) wants_bells: bool,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PrefaceBytes {
    magic: U64,
    slots: U32,
    slot_bytes: U32,
    wants_bells: U16,
    name_len: U16,
    version_min: U16,
    provider_len: U16,
    provider: [u8; PROVIDER_MAX],
    version_max: U16,
    name: [u8; NAME_MAX],
}

/// How long a preface is.
pub(super) const PREFACE_LEN: usize = size_of::<PrefaceBytes>();
const _: () = assert!(PREFACE_LEN == 344);

impl Preface {
    /// From a side that has no endpoint to offer, and may say why in place of a name.
    pub(super) fn none(versions: Versions, why: &str) -> Self {
        let (provider, name) = (String::new(), why.as_bytes()[..why.len().min(NAME_MAX)].to_vec());
        Self { versions, provider, name, slots: SLOTS_MIN, slot_bytes: SLOT_BYTES_MIN, wants_bells: false }
    }

    /// Why the other side has no endpoint to offer, if it has none and says why.
    pub(super) fn why_none(&self) -> Option<String> {
        let why = String::from_utf8_lossy(&self.name);
        (self.provider.is_empty() && !why.is_empty()).then(|| why.replace(char::is_control, " "))
    }

    /// Names that are too long are cut, and then no endpoint has them.
    pub(super) fn encode(&self) -> [u8; PREFACE_LEN] {
        let mut provider = [0; PROVIDER_MAX];
        let provider_len = self.provider.len().min(PROVIDER_MAX);
        provider[..provider_len].copy_from_slice(&self.provider.as_bytes()[..provider_len]);
        let bytes = PrefaceBytes {
            magic: MAGIC.into(),
            slots: (self.slots as u32).into(),
            slot_bytes: (self.slot_bytes as u32).into(),
            wants_bells: u16::from(self.wants_bells).into(),
            name_len: (self.name.len().min(NAME_MAX) as u16).into(),
            version_min: self.versions.min.into(),
            provider_len: (provider_len as u16).into(),
            provider,
            version_max: self.versions.max.into(),
            name: self.padded_name(),
        };
        zerocopy::transmute!(bytes)
    }

    /// The name with zeros behind it.
    pub(super) fn padded_name(&self) -> [u8; NAME_MAX] {
        let mut name = [0; NAME_MAX];
        let len = self.name.len().min(NAME_MAX);
        name[..len].copy_from_slice(&self.name[..len]);
        name
    }

    pub(super) fn decode(bytes: &[u8; PREFACE_LEN]) -> Result<Self, DecodeError> {
        let bytes: &PrefaceBytes = zerocopy::transmute_ref!(bytes);
        let wrong = |what, value: u64| Err(DecodeError::BadValue { what, value });
        if bytes.magic.get() != MAGIC {
            return Err(DecodeError::NotOutboard { start: bytes.magic.get().to_le_bytes() });
        }
        let versions = Versions { min: bytes.version_min.get(), max: bytes.version_max.get() }.check()?;
        let (slots, slot_bytes) = (bytes.slots.get() as usize, bytes.slot_bytes.get() as usize);
        if !(SLOTS_MIN..=SLOTS_MAX).contains(&slots) {
            return wrong("number of slots", slots as u64);
        }
        if !(SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&slot_bytes) {
            return wrong("length of a slot", slot_bytes as u64);
        }
        let wants_bells = match bytes.wants_bells.get() {
            0 => false,
            1 => true,
            other => return wrong("wish for bells", other.into()),
        };
        let (name_len, provider_len) = (bytes.name_len.get(), bytes.provider_len.get());
        let Some(name) = bytes.name.get(..name_len.into()) else {
            return wrong("length of an endpoint's name", name_len.into());
        };
        let provider = bytes.provider.get(..provider_len.into());
        let Some(provider) = provider.and_then(|provider| std::str::from_utf8(provider).ok()) else {
            return wrong("name of a provider", provider_len.into());
        };
        let (provider, name) = (provider.to_owned(), name.to_vec());
        Ok(Self { versions, provider, name, slots, slot_bytes, wants_bells })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preface() -> Preface {
        let (provider, name) = ("tcp;ofi_rxm".to_owned(), vec![2, 0, 1, 127]);
        Preface { versions: Versions::OURS, provider, name, slots: 32, slot_bytes: 4096, wants_bells: true }
    }

    #[test]
    fn a_preface_is_read_as_it_was_written() {
        assert_eq!(Preface::decode(&preface().encode()), Ok(preface()));
        for why in ["", "because"] {
            let none = Preface::decode(&Preface::none(Versions::OURS, why).encode()).unwrap();
            assert_eq!(none.why_none().unwrap_or_default(), why);
        }
        assert_eq!(preface().why_none(), None);
        let long = "ä".repeat(NAME_MAX);
        let told =
            Preface::decode(&Preface::none(Versions::OURS, &long).encode()).unwrap().why_none().unwrap();
        assert!(long.starts_with(&told) && told.len() == NAME_MAX, "{told}");
    }

    #[test]
    fn a_preface_that_promises_too_much_is_refused() {
        let wrong = [
            Preface { slots: 1 << 20, ..preface() },
            Preface { slots: 0, ..preface() },
            Preface { slot_bytes: 1 << 30, ..preface() },
            Preface { slot_bytes: 8, ..preface() },
            Preface { versions: Versions { min: 0, max: 2 }, ..preface() },
            Preface { versions: Versions { min: 3, max: 2 }, ..preface() },
        ];
        for preface in wrong {
            assert!(Preface::decode(&preface.encode()).is_err(), "{preface:?}");
        }
        // The magic, the wish for bells, the lengths of both names, and the provider's first letter.
        for at in [0, 17, 19, 23, 24] {
            let mut bytes = preface().encode();
            bytes[at] = 0xff;
            assert!(Preface::decode(&bytes).is_err(), "byte {at}");
        }
    }
}
