//! The choice of the process that moves bundles to other ranks.

use std::time::{Duration, Instant};

use outboard_link::Clock;
use outboard_routing::{Carrier, CarrierChooser};
use outboard_settings::MessagesPlacement;

use super::error::MessengerError;
use super::messages::Messenger;

/// How long a messenger that should use an agent waits at the beginning until the agent reaches all ranks.
const ALL_REACHED: Duration = Duration::from_secs(2);

/// The process that was asked to move bundles, and the facts about it.
pub(super) struct CarrierChoice {
    pub(super) placement: MessagesPlacement,
    chooser: CarrierChooser,
    clock: Clock,
}

impl CarrierChoice {
    pub(super) fn new(placement: MessagesPlacement, clock: Clock) -> Self {
        Self { placement, chooser: CarrierChooser::new(clock.now()), clock }
    }
}

impl Messenger {
    /// The process that was asked to move bundles to other ranks.
    pub fn placement(&self) -> MessagesPlacement {
        self.carriers.placement
    }

    /// Has others move bundles from now on. What is under way arrives by the way that it has taken, and every message still
    /// once. A messenger that was made for [`Inline`](MessagesPlacement::Inline) knows no agent and stays as it is.
    pub fn set_placement(&mut self, placement: MessagesPlacement) {
        self.carriers.placement = placement;
        let carriage = if placement == MessagesPlacement::Agent { Carrier::Agent } else { Carrier::Inline };
        self.worker.service().set_carriage(carriage);
    }

    /// The process that moves bundles at present and why, for people.
    pub fn explain(&mut self) -> Vec<String> {
        vec![self.explain_carrier()]
    }

    fn explain_carrier(&mut self) -> String {
        let others = self.ranks as usize - 1;
        let reached = self.worker.service().reached_by_agent();
        let refused = self.worker.service().refused().map(str::to_owned);
        match (self.carriers.placement, refused) {
            (MessagesPlacement::Inline, _) => "messages go inline, as asked".to_owned(),
            (_, Some(why)) => format!("messages go inline, because the agent refuses: {why}"),
            (_, None) if self.worker.service().is_agent_silent() => {
                "messages go inline, because the agent does not answer: it may have been stopped".to_owned()
            }
            (_, None) if others == 0 => "messages go nowhere: there is one rank".to_owned(),
            (_, None) if reached == 0 => "messages go inline: no agent reaches another rank".to_owned(),
            (MessagesPlacement::Agent, None) => {
                format!("messages go by the agent to {reached} of {others} ranks, as asked")
            }
            (MessagesPlacement::Auto, None) => {
                let now = self.carriers.clock.now();
                format!("messages go by what is faster: {}", self.carriers.chooser.explain(now))
            }
        }
    }

    /// Bytes are on their way to another rank.
    #[inline]
    pub(super) fn choose_carrier(&mut self, bytes: u32) {
        if self.carriers.placement == MessagesPlacement::Auto && self.has_agent {
            self.choose_by_speed(bytes);
        }
    }

    fn choose_by_speed(&mut self, bytes: u32) {
        let CarrierChoice { chooser, clock, .. } = &mut self.carriers;
        let service = self.worker.service();
        let carriage = chooser.on_sent(bytes, service.is_agent_there(), clock.now());
        service.set_carriage(carriage);
    }

    /// Waits until the agent reaches all ranks, for a while: some may have other agents, or none.
    pub(super) fn wait_for_agent(&mut self) -> Result<(), MessengerError> {
        let (began, others) = (Instant::now(), self.ranks as usize - 1);
        while self.carriers.placement == MessagesPlacement::Agent
            && self.worker.service().reached_by_agent() < others
        {
            if let Some(why) = self.worker.service().refused() {
                return Err(MessengerError::BadOptions(format!("the agent carries no messages: {why}")));
            }
            if began.elapsed() > ALL_REACHED {
                tracing::warn!("{}", self.explain_carrier());
                break;
            }
            self.progress()?;
            self.worker.rest(Duration::from_millis(1)).map_err(std::io::Error::from)?;
        }
        Ok(())
    }
}
