//! The memory of a rank's messages. What happens to it is decided in the room of routing.

use std::sync::Arc;

use outboard_link::memory::{Buffer, Segment};
use outboard_link::{Export, Exports};
use outboard_routing::{Buffers, BundleMemory};
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};
use rustix::io::Errno;
use thiserror::Error;

/// Why there is no memory for bundles.
#[derive(Error)]
#[error("no memory for {bytes} bytes of bundles: {source}")]
pub struct BuffersError {
    bytes: usize,
    #[source]
    source: Errno,
}

outboard_wire::debug_with_causes!(BuffersError);

/// Takes memory for `sending` buffers of `bundle_bytes` to write and `receiving` slots to receive, for so many message spaces
/// and so many ranks. Peers that hold the grant can read the former as long as `exports` has them.
pub fn take_buffers(
    exports: &Exports,
    region: RegionId,
    bundle_bytes: usize,
    (sending, receiving): (u32, u32),
    parties: (usize, u32),
) -> Result<Buffers, BuffersError> {
    let bytes = sending as usize * bundle_bytes;
    let failed = |bytes| move |source| BuffersError { bytes, source };
    let outgoing = Arc::new(Segment::create(c"outboard-bundles", bytes).map_err(failed(bytes))?);
    let mut key = [0; 16];
    rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty()).map_err(failed(bytes))?;
    let (key, rights, generation) = (RegionKey(key), Rights::READ, Generation(1));
    let memory = Arc::clone(&outgoing);
    exports.add(Export { region, generation, memory, keys: vec![(key, rights)] });
    let received = Buffers::incoming_bytes(bundle_bytes, receiving);
    let memory = BundleMemory {
        grant: Grant { region, generation, key, rights, size: outgoing.len() as u64 },
        outgoing: outgoing.into_buffer(),
        incoming: Buffer::allocate(received).map_err(failed(received))?,
    };
    Ok(Buffers::new(memory, bundle_bytes, (sending, receiving), parties))
}
