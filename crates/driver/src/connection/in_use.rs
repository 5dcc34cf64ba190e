//! A connection's client while a call uses it.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use outboard_link::ofi::OfiLink;
use outboard_link::shm::ShmLink;
use outboard_link::tcp::TcpLink;

use super::Over;

/// A connection's client, as what every client of its service does. While it is held, the thread that shows that a client lives waits
/// for the next time.
pub enum InUse<'a, O: Over, S> {
    /// Over a link that no other thread looks at.
    Own(S),
    /// Over TCP.
    Tcp(MutexGuard<'a, O::Client<TcpLink>>),
    /// Over a fabric.
    Ofi(MutexGuard<'a, O::Client<OfiLink>>),
}

impl<O: Over, S: Deref<Target = O::Client<ShmLink>>> Deref for InUse<'_, O, S> {
    type Target = O::Any;

    #[inline]
    fn deref(&self) -> &O::Any {
        match self {
            Self::Own(client) => O::any(client),
            Self::Tcp(client) => O::any(client),
            Self::Ofi(client) => O::any(client),
        }
    }
}

impl<O: Over, S: DerefMut<Target = O::Client<ShmLink>>> DerefMut for InUse<'_, O, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut O::Any {
        match self {
            Self::Own(client) => O::any_mut(client),
            Self::Tcp(client) => O::any_mut(client),
            Self::Ofi(client) => O::any_mut(client),
        }
    }
}
