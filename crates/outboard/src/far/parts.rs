//! Objects that are striped over several memory servers: a region at each, by which the object is one again.

use std::fmt;
use std::sync::atomic::Ordering;

use outboard_driver::paging::{RegionSpec, Stripes};
use outboard_paging::application::chunks::SizeClass;
use outboard_wire::Rights;
use outboard_wire::control::{ControlFailure, RegionSharing};

use super::memory::Shared;
use super::{FarError, RegionOptions};
use crate::client::AskError;
use crate::memory::FarRegion;

/// The use of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It is read.
    Read,
    /// It is read and written.
    Write,
    /// It is read and written, and was reserved just now: it is zero.
    Fresh,
}

/// The region that one memory server has of an object.
pub(super) struct Part {
    /// Which server.
    pub(super) at: usize,
    pub(super) stripes: Stripes,
    pub(super) far: FarRegion,
}

impl Part {
    /// An object that is all at the first server.
    pub(super) fn whole(far: FarRegion) -> Self {
        Self { at: 0, stripes: Stripes::WHOLE, far }
    }
}

/// The name for people of an object without a name.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "region {}", self.far.id())
    }
}

/// The name at a server of its part of a striped object. A process that would divide it in another way does not find it.
pub(super) fn part_name(name: &str, stripes: Stripes) -> String {
    if stripes.parts == 1 {
        return name.to_owned();
    }
    let Stripes { bytes, parts, part } = stripes;
    format!("{name} {} of {parts} by {bytes}", part + 1)
}

impl Shared {
    /// Reserves an object, over as many servers as it has stripes for. One with a name begins at the first server, so that
    /// others find it; of the rest each begins where the last one ended.
    pub(super) fn reserve(&self, bytes: u64, options: &RegionOptions) -> Result<Vec<Part>, FarError> {
        let class = SizeClass(options.chunk.max(1).ilog2() as u8);
        let servers = self.servers.len();
        let divided = Stripes::divide(bytes, self.stripe.max(options.chunk) as u64, servers as u32);
        let first = match options.name {
            Some(_) => 0,
            None => self.next_server.fetch_add(divided.len(), Ordering::Relaxed),
        };
        let mut parts = Vec::new();
        for (stripes, size) in divided {
            let at = first.wrapping_add(stripes.part as usize) % servers;
            let name = options.name.as_deref().map(|name| part_name(name, stripes));
            let reserved = self.server(at).and_then(|mut server| {
                Ok(match options.is_guaranteed {
                    true => server.reserve_chunks(size, class.0, name.as_deref(), RegionSharing::Leased)?,
                    false => server.reserve_sparse(size, class.0, name.as_deref())?,
                })
            });
            match reserved {
                Ok(far) => parts.push(Part { at, stripes, far }),
                Err(error) => {
                    self.free(parts);
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }

    /// Opens all parts of a named object. It may have fewer than there are servers, if it is short.
    pub(super) fn open(&self, name: &str, rights: Rights, chunk: usize) -> Result<Vec<Part>, FarError> {
        let (mut parts, bytes) = (self.servers.len() as u32, self.stripe.max(chunk) as u64);
        while parts > 1 {
            match self.open_part(name, rights, Stripes { bytes, parts, part: 0 }) {
                Ok(first) => return self.open_others(name, rights, first),
                Err(error) if is_unknown(&error) => parts -= 1,
                Err(error) => return Err(error),
            }
        }
        Ok(vec![self.open_part(name, rights, Stripes::WHOLE)?])
    }

    fn open_others(&self, name: &str, rights: Rights, first: Part) -> Result<Vec<Part>, FarError> {
        let stripes = first.stripes;
        let mut parts = vec![first];
        for part in 1..stripes.parts {
            match self.open_part(name, rights, Stripes { part, ..stripes }) {
                Ok(part) => parts.push(part),
                Err(error) => {
                    self.release(parts);
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }

    fn open_part(&self, name: &str, rights: Rights, stripes: Stripes) -> Result<Part, FarError> {
        let at = stripes.part as usize;
        let far = self.server(at)?.open(&part_name(name, stripes), rights)?;
        Ok(Part { at, stripes, far })
    }

    /// Gives the regions of an object back that came to nothing. A server that is gone has nothing to give back.
    fn free(&self, parts: Vec<Part>) {
        for Part { at, far, .. } in parts {
            let _ = self.server(at).map(|mut server| server.free(far));
        }
    }

    /// The specification of the parts of an object here.
    pub(super) fn specs(
        &self,
        name: &str,
        parts: &[Part],
        options: &RegionOptions,
        how: Use,
    ) -> Vec<RegionSpec> {
        let spec = |Part { at, stripes, far }: &Part| RegionSpec {
            object: name.to_owned(),
            name: match stripes.parts {
                1 => name.to_owned(),
                parts => format!("{name}, part {} of {parts} at {}", stripes.part + 1, self.servers[*at]),
            },
            grant: far.descriptor().grant,
            at: *at,
            server: far.server(),
            store: far.store(),
            stripes: *stripes,
            epoch: far.epoch(),
            class: SizeClass(options.chunk.max(1).ilog2() as u8),
            writable: how != Use::Read,
            is_fresh: how == Use::Fresh,
            is_kept: options.name.is_some(),
            path: options.path,
            cache: options.cache,
        };
        parts.iter().map(spec).collect()
    }
}

fn is_unknown(error: &FarError) -> bool {
    matches!(error, FarError::Ask(AskError::Refused { failure: ControlFailure::NoSuchRegion, .. }))
}
