//! Fire-and-forget messages between the ranks of a job: both ends of the protocol, and the agents between them.
//! Links are given as traits and time as an argument: no sockets, no clocks, no threads.
//!
//! | place | here | its owner |
//! |---|---|---|
//! | rank | [`RankService`]: what it sends, keeps and receives, by itself or by an agent; [`Agreement`] and [`Joiner`] above it | `outboard`, in the thread of the application |
//! | agent | [`RoutingWorker`]: runs into parcels, parcels to their next hops | `agent`, one for each thread |
//!
//! A source numbers its runs for each destination and message space and keeps them until the destination has them ([`Outgoing`]). A
//! destination knows which runs it has, whatever way and however often they come ([`Incoming`]), and puts long messages
//! together again ([`Joiner`]). So a run can be sent again, and by another way, whenever its source doubts that it has
//! arrived, and every message is still handled once. When nothing is left to handle anywhere is found out by
//! [`Quiescence`]; [`Barrier`] only waits until all are there.
//!
//! Agents carry runs between those two without looking into them. Whom an agent can reach is in its [`Routes`]; how it
//! packs runs for the same next hop together, and when it sends them, is [`Packing`]. Whether a rank uses its agent is up to
//! it or to a [`CarrierChooser`].
//!
//! What travels is in [`outboard_wire::routing`]. Memory, keys and what is shown of a router come from its owner.

#![forbid(unsafe_code)]

mod agent;
mod rank;

pub use agent::{
    Neighbour, OpenParcel, Packing, PackingConfig, ParcelRoom, RouteError, RouterHost, Routes, RoutingConfig,
    RoutingCounts, RoutingWorker, SharedRouting,
};
pub use rank::{
    Agreement, AgreementSignal, Arrived, Barrier, Buffers, BundleMemory, Carried, Carrier, CarrierChooser,
    Departed, Incoming, JoinError, Joiner, Kept, LETTER_LEN, NotSent, Outgoing, Quiescence, RankConfig,
    RankService, SIGNAL_LEN, SentAndHandled, WINDOW,
};
