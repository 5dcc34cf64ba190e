//! A rank: the machines that an application's thread runs, and a program that sends, handles and waits for the others.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_routing::{
    Agreement, Arrived, Buffers, Carrier, CarrierChooser, Joiner, LETTER_LEN, RankService,
};
use outboard_wire::routing::{Form, Fragment, MessageHead};
use outboard_wire::{Rank, Time};

use super::books::{Books, LETTER, Letter};
use super::layout::Layout;
use super::near::{Exported, NearLink};
use crate::Boot;

/// How long bundles are.
const BUNDLE: usize = 1 << 10;
/// The longest message.
const LONGEST: usize = 4 * BUNDLE;

/// The carrier of a rank's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Steady(Carrier),
    /// It changes its mind now and then.
    Fickle,
    /// The way that is faster.
    Chooses,
}

/// How an application behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// How many phases its program has, and how many messages it sends in each, besides replies.
    pub(super) phases: u32,
    pub(super) messages: u32,
    /// The mean time between two bundles.
    pub(super) pause: Duration,
    /// How many message spaces there are.
    pub(super) spaces: u8,
    pub(super) mood: Mood,
    /// Of how many bundles one is a message that is longer than a bundle.
    pub(super) long_one_in: u32,
    /// How long an agent may be silent.
    pub(super) agent_patience: Duration,
}

/// The present doing of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It sends so many more messages.
    Sending(u32),
    /// It waits until nothing is left in the spaces.
    Quiescing,
    /// It waits until all are at the barrier.
    AtBarrier,
    Over,
}

/// A message longer than a bundle, of which a part was sent.
struct Long {
    letter: Letter,
    bytes: Vec<u8>,
    sent: usize,
}

/// A rank.
pub(super) struct RankNode {
    pub(super) service: RankService,
    pub(super) agreement: Agreement,
    joiners: Vec<Joiner>,
    chooser: CarrierChooser,
    rank: u32,
    layout: Layout,
    habits: Habits,
    random: Rng,
    books: Books,
    exported: Exported,
    stage: Stage,
    phase: u32,
    /// Which spaces are not known to be quiet in this phase.
    unquiet: Vec<u8>,
    next_number: u32,
    next_at: Time,
    /// Messages that wait for a bundle: handlers reply, and cannot wait.
    replies: VecDeque<Letter>,
    longs: VecDeque<Long>,
    /// Messages that have arrived and are not handled yet.
    pub(super) unhandled: Vec<Arrived>,
    arrived: Vec<Arrived>,
    buffers: (u32, u32),
}

impl RankNode {
    pub(super) fn new(
        mut boot: Boot,
        rank: u32,
        layout: Layout,
        habits: Habits,
        (books, exported): (Books, Exported),
    ) -> Self {
        let sets = usize::from(habits.spaces) + 1;
        let (sending, receiving) = Buffers::least(sets, layout.ranks);
        let counts = (sending + 4, receiving + 2);
        let buffers = exported.take_buffers(BUNDLE, counts, (sets, layout.ranks), &mut boot.random);
        let config = layout.rank_config(rank, habits.spaces, habits.agent_patience);
        let mut service = RankService::new(config, buffers);
        if let Mood::Steady(carriage) = habits.mood {
            service.set_carriage(carriage);
        }
        let begun_max = Joiner::most(habits.spaces.into(), LONGEST, BUNDLE);
        Self {
            service,
            agreement: Agreement::new(rank, layout.ranks, habits.spaces),
            joiners: (0..layout.ranks).map(|_| Joiner::new(LONGEST, begun_max)).collect(),
            chooser: CarrierChooser::new(boot.now),
            rank,
            layout,
            habits,
            random: boot.random,
            books,
            exported,
            stage: Stage::Sending(habits.messages),
            phase: 0,
            unquiet: Vec::new(),
            next_number: 0,
            next_at: boot.now,
            replies: VecDeque::new(),
            longs: VecDeque::new(),
            unhandled: Vec::new(),
            arrived: Vec::new(),
            buffers: counts,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Over && self.service.kept() == 0
    }

    /// The things that it has kept although it is done, or still lacks although nothing goes wrong any more.
    pub(super) fn leftovers(&self) -> Option<String> {
        let free = self.service.free_places();
        let begun: usize = self.joiners.iter().map(Joiner::begun).sum();
        if self.service.is_agent_silent() {
            return Some(format!("rank {} does not use its agent, which has answered", self.rank));
        }
        let (reached, others) = (self.service.reached_by_agent(), self.layout.ranks as usize - 1);
        if reached < others {
            return Some(format!("the agent of rank {} reaches {reached} of {others} ranks", self.rank));
        }
        let is_clean = free == self.buffers && begun == 0 && self.unhandled.is_empty();
        (!is_clean)
            .then(|| format!("rank {} has {free:?} of {:?} places, {begun} parts", self.rank, self.buffers))
    }

    /// How much has gone by the agent.
    pub(super) fn carried(&self) -> u64 {
        self.service.carried().bytes_sent
    }

    fn next_letter(&mut self, destination: u32, space: u8, phase: u32) -> Letter {
        self.next_number += 1;
        Letter { space, phase, source: self.rank, destination, number: self.next_number }
    }

    /// Writes messages into a bundle and sends it. Returns false if there is none.
    fn send_bundle(&mut self, to: u32, set: u8, form: Form, messages: &[&[u8]], now: Time) -> bool {
        let buffers = self.service.buffers();
        let Some(buffer) = buffers.take(set) else { return false };
        let mut window = buffers.outgoing().window_mut().part(buffers.offset(buffer), BUNDLE);
        let mut len = 0;
        for message in messages {
            if form == Form::Messages {
                let head = MessageHead { size: message.len() as u32, rank: Rank(to) };
                window.write(len, &head.word().to_le_bytes());
                len += MessageHead::LEN;
            }
            window.write(len, message);
            len += if form == Form::Fragment { message.len() } else { message.len().next_multiple_of(8) };
        }
        self.agreement.sent(set.into(), len as u32);
        match self.habits.mood {
            Mood::Chooses => {
                let has_agent = self.service.is_agent_there();
                let carriage = self.chooser.on_sent(len as u32, has_agent, now);
                self.service.set_carriage(carriage);
            }
            Mood::Fickle if self.random.u32(..8) == 0 => {
                let ways = [Carrier::Inline, Carrier::Agent];
                self.service.set_carriage(ways[self.random.usize(..2)]);
            }
            _ => {}
        }
        self.service.seal(to, (buffer, len as u32), set, form);
        true
    }

    /// Sends some messages to another rank. Returns how many.
    fn send_some(&mut self, most: u32, now: Time) -> u32 {
        let space = self.random.u8(..self.habits.spaces);
        let to = (self.rank + self.random.u32(1..self.layout.ranks)) % self.layout.ranks;
        if self.random.u32(..self.habits.long_one_in) == 0 && self.longs.len() < 2 {
            let letter = self.next_letter(to, space, self.phase);
            self.books.sent(letter);
            let bytes = letter.encode(self.random.usize(BUNDLE..LONGEST));
            self.longs.push_back(Long { letter, bytes, sent: 0 });
            return 1;
        }
        let form = if self.random.bool() { Form::Messages } else { Form::Equal(LETTER as u16) };
        let count = self.random.u32(1..=(BUNDLE / MessageHead::stride(LETTER)) as u32).min(most);
        let letters: Vec<Letter> = (0..count).map(|_| self.next_letter(to, space, self.phase)).collect();
        self.send_letters(to, space, form, &letters, now) * count
    }

    fn send_letters(&mut self, to: u32, space: u8, form: Form, letters: &[Letter], now: Time) -> u32 {
        let messages: Vec<Vec<u8>> = letters.iter().map(|letter| letter.encode(LETTER)).collect();
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let is_sent = self.send_bundle(to, space, form, &messages, now);
        if is_sent {
            letters.iter().for_each(|letter| self.books.sent(*letter));
        }
        u32::from(is_sent)
    }

    /// Sends what waits for bundles, as far as there are any. Returns whether anything was sent.
    fn drain(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some((to, letter)) = self.agreement.letter() {
            let form = Form::Equal(LETTER_LEN as u16);
            if !self.send_bundle(to, self.habits.spaces, form, &[&letter], now) {
                break;
            }
            self.agreement.letter_sent();
            moved = true;
        }
        for _ in 0..self.replies.len() {
            let Some(reply) = self.replies.pop_front() else { break };
            if self.send_letters(reply.destination, reply.space, Form::Messages, &[reply], now) == 0 {
                self.replies.push_back(reply);
                continue;
            }
            moved = true;
        }
        while let Some(mut long) = self.longs.pop_front() {
            let Letter { destination, space, number, .. } = long.letter;
            let (offset, total) = (long.sent as u64, long.bytes.len() as u64);
            let head = Fragment { message: number.into(), total, offset }.encode();
            let len = (long.bytes.len() - long.sent).min(BUNDLE - Fragment::LEN);
            let part = &long.bytes[long.sent..long.sent + len];
            if !self.send_bundle(destination, space, Form::Fragment, &[&head, part], now) {
                self.longs.push_front(long);
                break;
            }
            long.sent += len;
            moved = true;
            if long.sent < long.bytes.len() {
                self.longs.push_front(long);
            }
        }
        moved
    }

    /// Handles a run.
    fn handle(&mut self, arrived: Arrived) {
        let Arrived { source, slot, at, len, space, form } = arrived;
        let buffers = self.service.buffers();
        let place = buffers.slot_offset(slot) + at as usize;
        let bytes = buffers.incoming().window().part(place, len as usize).to_vec();
        match form {
            _ if space == self.habits.spaces => {
                bytes.chunks(LETTER_LEN).for_each(|letter| self.agreement.on_letter(source, letter));
            }
            Form::Fragment => {
                let joined = Fragment::decode(&bytes).map_err(|error| error.to_string()).and_then(
                    |(fragment, part)| {
                        self.joiners[source as usize].add(fragment, part).map_err(|error| error.to_string())
                    },
                );
                match joined {
                    Ok(whole) => whole.iter().for_each(|whole| self.handle_message(source, space, whole)),
                    Err(why) => self.books.fail(format!("long messages are put together, but {why}")),
                }
            }
            Form::Equal(_) => {
                bytes.chunks(LETTER).for_each(|message| self.handle_message(source, space, message));
            }
            _ => bytes.chunks(MessageHead::stride(LETTER)).for_each(|message| {
                self.handle_message(source, space, message.get(MessageHead::LEN..).unwrap_or(message));
            }),
        }
        self.agreement.handled(space.into(), len);
        self.service.buffers().give_slot_back(slot);
    }

    fn handle_message(&mut self, source: u32, space: u8, message: &[u8]) {
        let letter = self.books.handled((source, self.rank), space, message);
        if let Some(letter) = letter.filter(|_| self.random.u32(..6) == 0) {
            let reply = self.next_letter(source, space, letter.phase);
            self.replies.push_back(reply);
        }
    }

    /// Whether it has nothing of a space left to send or to handle.
    fn is_idle(&self, space: u8) -> bool {
        self.unhandled.iter().all(|arrived| arrived.space != space)
            && self.replies.iter().all(|reply| reply.space != space)
            && self.longs.iter().all(|long| long.letter.space != space)
    }

    /// Goes on with the program. Returns whether anything was done.
    fn go_on(&mut self, now: Time) -> bool {
        match self.stage {
            Stage::Sending(0) => {
                self.unquiet = (0..self.habits.spaces).collect();
                for space in 0..self.habits.spaces {
                    self.books.comes(Some(space), self.phase);
                    self.agreement.begin(Some(space));
                }
                self.stage = Stage::Quiescing;
                true
            }
            Stage::Sending(left) if now >= self.next_at => {
                let sent = self.send_some(left, now);
                self.stage = Stage::Sending(left - sent);
                self.next_at = now + self.habits.pause.mul_f64(0.1 + 2.0 * self.random.f64());
                sent > 0
            }
            Stage::Sending(_) | Stage::Over => false,
            Stage::Quiescing => {
                let before = self.unquiet.len();
                for space in self.unquiet.clone() {
                    self.agreement.advance(Some(space), self.is_idle(space));
                    if self.agreement.is_over(Some(space)) {
                        self.books.is_over(Some(space), self.phase);
                        self.unquiet.retain(|other| *other != space);
                    }
                }
                if self.unquiet.is_empty() {
                    self.books.comes(None, self.phase);
                    self.agreement.begin(None);
                    self.stage = Stage::AtBarrier;
                }
                self.unquiet.len() < before
            }
            Stage::AtBarrier => {
                self.agreement.advance(None, true);
                if !self.agreement.is_over(None) {
                    return false;
                }
                self.books.is_over(None, self.phase);
                self.phase += 1;
                let is_over = self.phase == self.habits.phases;
                self.stage = if is_over { Stage::Over } else { Stage::Sending(self.habits.messages) };
                true
            }
        }
    }

    fn work(&mut self, now: Time) -> bool {
        self.service.swap_arrived(&mut self.arrived);
        self.unhandled.append(&mut self.arrived);
        let mut moved = false;
        // Some are left for later: spaces are not handled in the order in which their messages come.
        for index in (0..self.unhandled.len()).rev() {
            if self.random.u32(..4) > 0 {
                let arrived = self.unhandled.swap_remove(index);
                self.handle(arrived);
                moved = true;
            }
        }
        moved |= self.go_on(now);
        moved | self.drain(now)
    }

    /// A rank finds nothing wrong with honest peers.
    fn check_peers(&mut self) {
        if let Some(departed) = self.service.departed().first() {
            self.books.fail(format!("no rank is given up, but {departed:?}"));
        }
        if let Some(why) = self.service.refused() {
            self.books.fail(format!("no honest agent is refused, but one was: {why}"));
        }
    }
}

impl Service for RankNode {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        self.check_peers();
        self.work(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.service.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        self.service.on_frame(link, frame, now)
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.service.on_completion(link, completion, now);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        if !self.layout.is_near(self.rank, link.peer()) {
            return self.service.send(id, link, now);
        }
        let mut near = NearLink::new(link, &self.exported);
        let moved = self.service.send(id, &mut near, now)?;
        let ended = near.completions(|completion| self.service.on_completion(id, completion, now));
        Ok(moved | (ended > 0))
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.service.on_lost(link, error, now);
    }

    fn next_deadline(&self) -> Option<Time> {
        let sends = matches!(self.stage, Stage::Sending(_)).then_some(self.next_at);
        let handles = (!self.unhandled.is_empty()).then_some(Time::ZERO);
        self.service.next_deadline().into_iter().chain(sends).chain(handles).min()
    }

    fn on_time(&mut self, now: Time) {
        self.service.on_time(now);
    }
}
