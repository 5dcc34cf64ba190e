//! The yardsticks: the least that the machine lets two processes get away with.
//!
//! They check nothing, name no peer and never sleep more than they must; a peer could crash them at will.

mod hand_over;
mod recycle;
mod ring;
mod server;
mod socket;

pub(crate) use hand_over::HandOver;
pub(crate) use recycle::{BareRecycle, Shape, Traffic};
pub(crate) use ring::{BareReader, BareRings, BareWriter};
pub(crate) use server::BareClient;
pub(crate) use socket::{BareListener, BareSocket};
