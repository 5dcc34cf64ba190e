//! When an agent sends a parcel that is not full.
//!
//! A parcel that is sent early is small, one that is sent late makes its messages wait. What is worth waiting for is more
//! to put into it: so an agent holds a parcel only while it has reason to believe that it will be filled within the time
//! that it may be held, or while the one before has not been taken anyway. Parcels for a rank get as much as
//! all ranks together send to it, however many nodes they are on; so neither their size nor their delay depends on that.

use core::time::Duration;

use outboard_wire::Time;

/// How an agent packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackingConfig {
    /// How long a parcel is held at most.
    pub hold: Duration,
    /// How many parcels may be under way to one next hop.
    pub under_way: u32,
}

impl Default for PackingConfig {
    fn default() -> Self {
        Self { hold: Duration::from_micros(100), under_way: 16 }
    }
}

/// A parcel that is being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenParcel {
    /// The buffer that it lies in.
    pub buffer: u32,
    /// How many bytes are in it.
    pub len: u32,
    since: Time,
}

/// What an agent packs for one next hop.
#[derive(Clone, Debug)]
pub struct Packing {
    config: PackingConfig,
    capacity: u32,
    open: Option<OpenParcel>,
    under_way: u32,
    inflow: Inflow,
}

/// What is to be done so that a run can be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParcelRoom {
    /// It fits into the open parcel.
    There,
    /// The parcel has to be closed first.
    AfterClosing,
    /// A parcel has to be opened.
    AfterOpening,
    /// It has to wait: too much is under way.
    Later,
}

impl Packing {
    /// Nothing is packed. Parcels hold up to `capacity` bytes.
    pub fn new(config: PackingConfig, capacity: u32, now: Time) -> Self {
        Self { config, capacity, open: None, under_way: 0, inflow: Inflow::new(now) }
    }

    /// Whether there is room for so many bytes.
    pub fn room(&self, bytes: u32) -> ParcelRoom {
        match self.open {
            Some(open) if open.len + bytes <= self.capacity => ParcelRoom::There,
            Some(_) => ParcelRoom::AfterClosing,
            None if self.under_way < self.config.under_way => ParcelRoom::AfterOpening,
            None => ParcelRoom::Later,
        }
    }

    /// Opens a parcel in a buffer.
    pub fn open(&mut self, buffer: u32, now: Time) {
        debug_assert!(self.open.is_none(), "one parcel is open at a time");
        self.open = Some(OpenParcel { buffer, len: 0, since: now });
    }

    /// So many bytes go into the open parcel; returns its buffer and where they begin.
    ///
    /// # Panics
    /// If there is no [room](Self::room).
    pub fn add(&mut self, bytes: u32, now: Time) -> (u32, u32) {
        self.inflow.add(bytes, now);
        let open = self.open.as_mut().filter(|open| open.len + bytes <= self.capacity);
        let open = open.expect("the caller has asked for room");
        let at = open.len;
        open.len += bytes;
        (open.buffer, at)
    }

    /// What was added last is not there after all.
    pub fn take_back(&mut self, bytes: u32) {
        if let Some(open) = &mut self.open {
            open.len = open.len.saturating_sub(bytes);
        }
    }

    /// Whether the open parcel should be sent now.
    pub fn is_due(&self, now: Time) -> bool {
        let Some(open) = self.open.filter(|open| open.len > 0) else { return false };
        let (age, left) = (now.since(open.since), self.capacity - open.len);
        if left < self.capacity / 8 || age >= self.config.hold {
            return true;
        }
        self.under_way == 0 && self.inflow.time_for(left, now) > self.config.hold - age
    }

    /// Ends the open parcel, which is under way from now on. None if there is nothing in it.
    pub fn close(&mut self) -> Option<OpenParcel> {
        let open = self.open.take_if(|open| open.len > 0)?;
        self.under_way += 1;
        Some(open)
    }

    /// A parcel that was packed elsewhere goes to the same next hop, if not too much is under way. One place is left
    /// for what is packed here, so that neither has to wait for the end of the other.
    pub fn pass_on(&mut self) -> bool {
        let is_free = self.under_way == 0 || self.under_way + 1 < self.config.under_way;
        self.under_way += u32::from(is_free);
        is_free
    }

    /// How many parcels have not been taken.
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// A parcel has been taken.
    pub fn on_taken(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// The next hop is gone; returns the buffer of the open parcel.
    pub fn give_up(&mut self) -> Option<u32> {
        self.under_way = 0;
        self.open.take().map(|open| open.buffer)
    }

    /// When to ask again whether it is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.open.filter(|open| open.len > 0).map(|open| open.since + self.config.hold)
    }
}

/// How long one look at the inflow takes.
const LOOK: Duration = Duration::from_micros(50);

/// How much comes for a next hop.
#[derive(Clone, Debug)]
struct Inflow {
    since: Time,
    bytes: u64,
    /// Bytes for each microsecond, smoothed.
    rate: f64,
}

impl Inflow {
    fn new(now: Time) -> Self {
        Self { since: now, bytes: 0, rate: 0.0 }
    }

    fn add(&mut self, bytes: u32, now: Time) {
        let elapsed = now.since(self.since);
        if elapsed >= LOOK {
            self.rate = (self.rate + self.latest(elapsed)) / 2.0;
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes += u64::from(bytes);
    }

    fn latest(&self, elapsed: Duration) -> f64 {
        self.bytes as f64 / (elapsed.as_nanos().max(1) as f64 / 1e3)
    }

    /// How long it takes until so many bytes more have come.
    fn time_for(&self, bytes: u32, now: Time) -> Duration {
        let elapsed = now.since(self.since);
        // A silence that is longer than a look says more than what was before.
        let rate = if elapsed >= LOOK { self.rate.min(self.latest(elapsed)) } else { self.rate };
        let micros = f64::from(bytes) / rate;
        if micros.is_finite() { Duration::from_secs_f64((micros / 1e6).min(1.0)) } else { Duration::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u32 = 1000;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    fn opened(now: Time) -> Packing {
        let mut packing = Packing::new(PackingConfig::default(), CAPACITY, now);
        packing.open(7, now);
        packing
    }

    #[test]
    fn what_comes_alone_goes_at_once() {
        let mut packing = opened(at(0));
        packing.add(100, at(0));
        assert!(packing.is_due(at(0)), "nothing else is expected");
        assert_eq!(packing.close().map(|parcel| (parcel.buffer, parcel.len)), Some((7, 100)));
    }

    #[test]
    fn what_comes_while_another_is_under_way_waits_for_it_but_not_for_ever() {
        let mut packing = opened(at(0));
        packing.add(100, at(0));
        packing.close();
        packing.open(8, at(1));
        packing.add(100, at(1));
        assert!(!packing.is_due(at(2)));
        assert_eq!(packing.next_deadline(), Some(at(101)));
        assert!(packing.is_due(at(101)));
        packing.on_taken();
        assert!(packing.is_due(at(2)));
    }

    #[test]
    fn a_stream_fills_parcels() {
        let mut packing = opened(at(0));
        // 20 bytes a microsecond fill a parcel in 50.
        let mut sizes = Vec::new();
        for now in 0..1000 {
            let now = at(now);
            if packing.room(20) != ParcelRoom::There {
                sizes.extend(packing.close().map(|parcel| parcel.len));
                packing.on_taken();
                packing.open(7, now);
            }
            packing.add(20, now);
            if packing.is_due(now) {
                sizes.extend(packing.close().map(|parcel| parcel.len));
                packing.on_taken();
                packing.open(7, now);
            }
        }
        let later = &sizes[sizes.len() - 10..];
        assert!(later.iter().all(|size| *size > CAPACITY * 3 / 4), "{sizes:?}");
        packing.add(20, at(1000));
        assert!(packing.is_due(at(1200)), "the stream has ended");
    }

    #[test]
    fn what_was_packed_elsewhere_leaves_room_for_what_is_packed_here() {
        let mut packing = Packing::new(PackingConfig::default(), CAPACITY, at(0));
        assert_eq!((0..20).filter(|_| packing.pass_on()).count(), 15);
        assert_eq!(packing.room(1), ParcelRoom::AfterOpening);
        packing.open(7, at(0));
        packing.add(1, at(0));
        packing.close();
        packing.on_taken();
        assert!(!packing.pass_on());
        packing.on_taken();
        assert!(packing.pass_on());
        let mut narrow =
            Packing::new(PackingConfig { under_way: 1, ..PackingConfig::default() }, CAPACITY, at(0));
        assert!(narrow.pass_on() && !narrow.pass_on(), "one can always go");
    }

    #[test]
    fn there_is_room_as_long_as_not_too_much_is_under_way() {
        let mut packing = opened(at(0));
        packing.add(900, at(0));
        assert_eq!((packing.room(100), packing.room(101)), (ParcelRoom::There, ParcelRoom::AfterClosing));
        for buffer in 0..16 {
            packing.close();
            if packing.room(1) == ParcelRoom::AfterOpening {
                packing.open(buffer, at(0));
                packing.add(1, at(0));
            }
        }
        assert_eq!(packing.room(1), ParcelRoom::Later);
        packing.on_taken();
        assert_eq!(packing.room(1), ParcelRoom::AfterOpening);
    }
}
