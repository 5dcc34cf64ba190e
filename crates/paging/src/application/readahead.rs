//! Which chunks will be wanted next, learnt from those that were wanted.

/// How many recent faults are remembered.
const HISTORY: usize = 32;
/// How many streams are followed at once, for threads that scan different places.
const STREAMS: usize = 16;
/// How fast experience with streams replaces experience: one part in so many.
const MEMORY: u32 = 16;
/// How many faults pass before a stream is tried again where streams are not believed.
const TRY_ONE_IN: u64 = 16;
/// How many recent faults beside a stream's steps show that nothing is left out.
const BETWEEN_MIN: usize = 2;
/// How many steps behind a fault are looked at for them: threads lag behind the one that took the latest block.
const STEPS_BACK: i64 = 8;
/// The longest step between two chunks of a stream.
const STRIDE_MAX: i64 = 256;
/// How many chunks are asked for when a stream is first seen.
const WINDOW_FIRST: u32 = 4;

/// Chunks to ask for: `count` of them, beginning at `first`, `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The first chunk.
    pub first: u32,
    /// From one to the next.
    pub stride: i32,
    /// How many.
    pub count: u32,
    /// Which of them stays in its seat, so that touching it asks for more.
    pub marker: u32,
}

impl Ahead {
    /// Their numbers, in the order in which they will be wanted.
    pub fn chunks(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |step| self.at(step))
    }

    /// The rest of a chunk whose pages came one by one.
    pub(super) fn rest_of(chunk: u32) -> Self {
        Self { first: chunk, stride: 1, count: 1, marker: u32::MAX }
    }

    fn at(self, step: u32) -> u32 {
        (i64::from(self.first) + i64::from(step) * i64::from(self.stride)) as u32
    }
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    stride: i64,
    /// The first chunk that was not asked for yet.
    next: i64,
    window: u32,
    /// When it was last followed.
    used: u64,
}

/// Follows streams of faults at constant strides in one region. A fault on the marker of a stream, or on any chunk
/// that it has asked for, means that the application gets there: the next window is asked for, twice as long.
#[derive(Debug)]
pub struct ReadAhead {
    recent: [i64; HISTORY],
    at: usize,
    streams: [Option<Stream>; STREAMS],
    clock: u64,
    window_max: u32,
    chunks: u32,
    /// The share of recent faults that met a stream, in 256ths.
    met: u32,
    /// Whether a stream has expected the last fault, and whether there were faults on chunks beside it lately.
    is_met: bool,
    is_beside: bool,
}

impl ReadAhead {
    /// For a region of `chunks` chunks; asks for at most `window_max` at once, and for nothing if that is zero.
    pub fn new(chunks: u32, window_max: u32) -> Self {
        Self {
            recent: [i64::MIN / 4; HISTORY],
            at: 0,
            streams: [None; STREAMS],
            clock: 0,
            window_max,
            chunks,
            met: 128,
            is_met: false,
            is_beside: false,
        }
    }

    /// Asks for more or less at once from now on.
    pub fn set_window_max(&mut self, window_max: u32) {
        self.window_max = window_max;
    }

    /// Whether a stream has expected the chunk that a thread waited for last.
    pub fn is_met(&self) -> bool {
        self.is_met
    }

    /// Whether threads had waited for chunks beside that one not long before.
    pub fn is_beside(&self) -> bool {
        self.is_beside
    }

    /// A thread waits for this chunk, or for a page of it; says which others to ask for.
    pub fn touched(&mut self, chunk: u32) -> Option<Ahead> {
        let chunk = i64::from(chunk);
        self.is_beside = self.recent.iter().any(|before| before.abs_diff(chunk) == 1);
        self.is_met = false;
        let ahead = if self.window_max == 0 { None } else { self.look_ahead(chunk) };
        // The pages of a divided chunk are one step of a stream.
        if !self.recent.contains(&chunk) {
            self.recent[self.at] = chunk;
            self.at = (self.at + 1) % HISTORY;
        }
        ahead
    }

    fn look_ahead(&mut self, chunk: i64) -> Option<Ahead> {
        self.clock += 1;
        let is_believed = self.is_believed();
        if !is_believed && self.streams.iter().flatten().count() > STREAMS / 8 {
            self.streams = [None; STREAMS];
        }
        let met = self.met_by(chunk);
        self.is_met = is_believed && met.is_some();
        self.met = (self.met * (MEMORY - 1) + 256 * u32::from(met.is_some())) / MEMORY;
        match met {
            // Where a window is late, the faults within it begin another one.
            Some(at) => match self.follow(at, chunk, is_believed) {
                None if is_believed => self.discover(chunk),
                ahead => ahead,
            },
            None if is_believed || self.clock.is_multiple_of(TRY_ONE_IN) => self.discover(chunk),
            None => None,
        }
    }

    /// Whether more faults meet streams than would by chance. Among many faults without an order some are at equal
    /// distances, and what looks like streams then covers much of a small region: there nearly all faults have to meet one.
    fn is_believed(&self) -> bool {
        let covered: u32 = self.streams.iter().flatten().map(|stream| 2 * stream.window + 1).sum();
        let by_chance = 256 * u64::from(covered) / u64::from(self.chunks.max(1));
        u64::from(self.met) >= (2 * by_chance).clamp(16, 224)
    }

    /// The stream that has asked for a chunk, or for the one before it.
    fn met_by(&self, chunk: i64) -> Option<usize> {
        let meets = |stream: &Stream| {
            let behind = (stream.next - chunk) / stream.stride;
            (stream.next - chunk) % stream.stride == 0 && (0..=2 * i64::from(stream.window)).contains(&behind)
        };
        let met = |at: &usize| self.streams[*at].is_some_and(|stream| meets(&stream));
        // Long steps meet many chunks by chance.
        (0..STREAMS).filter(met).min_by_key(|at| self.streams[*at].map(|stream| stream.stride.abs()))
    }

    /// The application has got where a stream expects it.
    fn follow(&mut self, at: usize, chunk: i64, is_believed: bool) -> Option<Ahead> {
        let (chunks, window_max, clock) = (self.chunks, self.window_max, self.clock);
        if self.streams[at].is_some_and(|stream| self.is_front(chunk, stream.stride)) {
            self.streams[at] = None;
            return self.discover(chunk);
        }
        let stream = self.streams[at].as_mut()?;
        stream.used = clock;
        let left = (stream.next - chunk) / stream.stride;
        // The last window has hardly been begun: what it asked for is not needed yet.
        if left > i64::from(stream.window) {
            return None;
        }
        if is_believed {
            stream.window = (stream.window * 2).min(window_max);
        }
        let first = if left == 0 { chunk + stream.stride } else { stream.next };
        let ahead = window(first, stream.stride, stream.window, chunks)?;
        stream.next = first + stream.stride * i64::from(ahead.count);
        Some(ahead)
    }

    /// Three faults at the same distance begin a stream.
    fn discover(&mut self, chunk: i64) -> Option<Ahead> {
        let has = |wanted: i64| self.recent.contains(&wanted);
        let stride = self
            .recent
            .iter()
            .map(|before| chunk - before)
            .filter(|stride| *stride != 0 && stride.abs() <= STRIDE_MAX)
            .filter(|stride| has(chunk - 2 * stride))
            .min_by_key(|stride| stride.abs())?;
        let stride = if self.is_front(chunk, stride) { stride.signum() } else { stride };
        let count = WINDOW_FIRST.min(self.window_max);
        let ahead = window(chunk + stride, stride, count, self.chunks)?;
        let next = chunk + stride * (1 + i64::from(ahead.count));
        let stream = Stream { stride, next, window: count, used: self.clock };
        let place = (0..STREAMS).min_by_key(|at| self.streams[*at].map_or(0, |stream| stream.used))?;
        self.streams[place] = Some(stream);
        Some(ahead)
    }

    /// Whether threads that take turns go through everything up to this chunk: then equal steps between some of them are
    /// chance. A thread that really goes by steps leaves out what lies between.
    fn is_front(&self, chunk: i64, stride: i64) -> bool {
        if stride.abs() == 1 {
            return false;
        }
        let begin = chunk - STEPS_BACK * stride;
        let span = begin.min(chunk)..chunk.max(begin);
        let between = |before: &&i64| span.contains(*before) && (chunk - **before) % stride != 0;
        self.recent.iter().filter(between).count() >= BETWEEN_MIN
    }
}

/// As much of a window as lies in the region.
fn window(first: i64, stride: i64, count: u32, chunks: u32) -> Option<Ahead> {
    let room = if stride > 0 { (i64::from(chunks) - 1 - first) / stride } else { first / -stride };
    if first < 0 || first >= i64::from(chunks) || room < 0 {
        return None;
    }
    let count = count.min(u32::try_from(room + 1).unwrap_or(u32::MAX));
    let ahead = Ahead { first: first as u32, stride: stride as i32, count, marker: 0 };
    // Touching the first of a window leaves the time of the rest to fetch the next one.
    Some(Ahead { marker: ahead.at(0), ..ahead })
}

#[cfg(test)]
mod tests;
