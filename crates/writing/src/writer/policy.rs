//! Decides by which path a write goes.
//!
//! It sees what a writer sees: which pages it writes, how long its writes take by each path, and hints. From that it
//! knows which pages are [hot](heat), what writes of each [size](class) cost, and how hot a page has to be
//! ([frontier]) for the target to still have its translation at hand when it is written next.

mod class;
mod frontier;
mod heat;
mod lesson;

use core::fmt;
use core::time::Duration;

use outboard_steering::{Explanation, Preference};
use outboard_wire::Time;

use crate::writer::span::{PAGE_LOG2, page_hash};
use crate::{Hint, WritePath, WriteSpan};
use class::{Class, STEERING};
use frontier::{Frontier, Zone};
use heat::Heat;
use lesson::Kind;
pub use lesson::Lesson;

/// How decisions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Where offloading takes less than this on average and unloading four times as much, only one write in
    /// `sample_one_in` is looked at: looking would cost more than could be gained. Default 1 µs.
    pub fast_ns: u64,
    /// See `fast_ns`; default 512, 0 counts as 1.
    pub sample_one_in: u32,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self { fast_ns: 1000, sample_one_in: 512 }
    }
}

/// The sizes that are told apart: up to 256 bytes, 2 KiB, 16 KiB, and more.
const CLASSES: usize = 1 << lesson::CLASS_BITS;

#[inline]
fn class_of(len: u64) -> usize {
    match len {
        0..=256 => 0,
        257..=2048 => 1,
        2049..=16_384 => 2,
        _ => 3,
    }
}

/// Decides by which path a write goes.
#[derive(Debug)]
pub struct Policy {
    config: PolicyConfig,
    classes: [Class; CLASSES],
    frontier: Frontier,
    heat: Heat,
    /// Writes until the next that is looked at; 1 where every one is.
    until_look: u32,
    look_one_in: u32,
    since_check: u32,
    /// A bit for each class of which something was learnt since the latest check.
    used: u8,
    /// For each class how many checks in a row have found that nothing was.
    unused_checks: [u32; CLASSES],
}

/// Lessons after which it is thought over whether to look at every write.
const CHECK: u32 = 64;
/// How many lessons where few writes are looked at, and each lesson stands for many writes.
const SAMPLED_CHECK: u32 = 16;
/// Checks in a row without a lesson after which a size of writes counts as given up. It would keep all others waiting for a
/// look otherwise.
const GIVEN_UP: u32 = 16;

impl Policy {
    /// One with the usual settings that decides every write by itself.
    pub fn adaptive(now: Time) -> Self {
        Self::new(PolicyConfig::default(), Preference::Auto, now)
    }

    pub(crate) fn new(config: PolicyConfig, preference: Preference<WritePath>, now: Time) -> Self {
        let preference = match preference {
            Preference::Fixed(path) => Preference::Hint(path),
            other => other,
        };
        Self {
            config,
            classes: core::array::from_fn(|_| Class::new(&STEERING, preference, now)),
            frontier: Frontier::new(),
            heat: Heat::new(),
            until_look: 1,
            look_one_in: 1,
            since_check: CHECK,
            used: 0,
            unused_checks: [0; CLASSES],
        }
    }

    #[inline]
    pub(crate) fn wants_clock(&self) -> bool {
        self.until_look <= 1
    }

    /// Whether the next write is one that is not looked at: it is offloaded. If so, it counts as decided.
    #[inline]
    pub(crate) fn passes(&mut self) -> bool {
        let passes = self.until_look > 1;
        self.until_look -= u32::from(passes);
        passes
    }

    /// The path for a write, and what it will teach.
    #[inline]
    pub fn choose(&mut self, span: &WriteSpan, hint: Hint) -> (WritePath, Lesson) {
        self.until_look -= 1;
        if self.until_look > 0 {
            return (WritePath::Offload, Lesson::NONE);
        }
        self.until_look = self.look_one_in;
        let class = class_of(span.len);
        if self.look_one_in > 1 {
            return self.sample(class);
        }
        match hint {
            Hint::None => self.decide(class, span),
            Hint::Streaming | Hint::Hot => (WritePath::Offload, Lesson::NONE),
            Hint::Cold => {
                let path = self.classes[class].pick();
                let kind = if path == WritePath::Unload { Kind::Unload } else { Kind::Cold };
                (path, Lesson::of_size(class, kind))
            }
        }
    }

    #[inline]
    fn decide(&mut self, class: usize, span: &WriteSpan) -> (WritePath, Lesson) {
        let hash = page_hash(span.slot, span.offset >> PAGE_LOG2);
        let found = self.heat.touch(hash);
        let costs = &mut self.classes[class];
        let zone = self.frontier.zone(found.heat, found.warmth, hash);
        let path = if costs.chosen == WritePath::Unload && zone != Zone::Beyond {
            WritePath::Offload
        } else {
            costs.pick()
        };
        let (is_offloaded, is_burnt) = (path == WritePath::Offload, found.warmth == frontier::BURNT);
        let offloaded = if (found.warmth > 0) & !is_burnt { Kind::Warm } else { Kind::Cold };
        let kind = if is_offloaded { offloaded } else { Kind::Unload };
        let cooled = if is_burnt { frontier::BURNT } else { 0 };
        let warmth = if is_offloaded { frontier::warmer(found.warmth) } else { cooled };
        self.heat.set_warmth(found, warmth);
        (path, Lesson::of_page(hash, class, kind, zone))
    }

    #[cold]
    fn sample(&mut self, class: usize) -> (WritePath, Lesson) {
        let path = self.classes[class].pick();
        let kind = if path == WritePath::Unload { Kind::Unload } else { Kind::Sample };
        (path, Lesson::of_size(class, kind))
    }

    /// A write has ended well.
    #[inline]
    pub fn learn(&mut self, now: Time, lesson: Lesson, took: Duration) {
        let kind = lesson.kind();
        if kind == Kind::Nothing {
            return;
        }
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let class = &mut self.classes[lesson.class()];
        match kind {
            Kind::Nothing => {}
            Kind::Unload => class.learn_unload(now, took_ns),
            Kind::Sample => class.learn_cold(now, took_ns),
            Kind::Cold => {
                class.learn_cold(now, took_ns);
                if let Some(costs) = class.costs() {
                    self.frontier.learn(lesson.zone(), false, true, costs);
                }
            }
            Kind::Warm => {
                if let (Some(is_miss), Some(costs)) = (class.learn_warm(now, took_ns), class.costs()) {
                    self.frontier.learn(lesson.zone(), true, is_miss, costs);
                    if is_miss && class.chosen == WritePath::Unload {
                        self.heat.demote(lesson.hash(), self.frontier.heat);
                    }
                }
            }
        }
        self.used |= 1 << lesson.class();
        self.since_check -= 1;
        if self.since_check == 0 {
            self.check();
        }
    }

    /// Thinks over whether every write is worth a look.
    #[cold]
    fn check(&mut self) {
        for (class, unused) in self.unused_checks.iter_mut().enumerate() {
            *unused = if self.used & 1 << class == 0 { unused.saturating_add(1) } else { 0 };
        }
        self.used = 0;
        let is_fast = |class: &Class| {
            class.chosen == WritePath::Offload
                && class.averages().is_some_and(|(offload, unload)| {
                    offload < self.config.fast_ns as f64 && unload > 4.0 * offload
                })
        };
        let in_use = self.classes.iter().zip(self.unused_checks).filter(|(_, unused)| *unused < GIVEN_UP);
        let mut known = in_use.map(|(class, _)| class).filter(|class| class.averages().is_some()).peekable();
        let all_fast = known.peek().is_some() && known.all(is_fast);
        (self.look_one_in, self.since_check) =
            if all_fast { (self.config.sample_one_in.max(1), SAMPLED_CHECK) } else { (1, CHECK) };
    }

    /// For each size of writes, what becomes of those to pages that are not hot, and why.
    pub fn explain(&self, now: Time) -> PolicyExplanation {
        PolicyExplanation {
            sizes: self.classes.each_ref().map(|class| class.explain(now)),
            hot_heat: self.frontier.heat / heat::TOUCH,
            looks_one_in: self.look_one_in,
        }
    }
}

/// Why writes go where they go: one line for each size by `Display`, fields for programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyExplanation {
    /// What becomes of writes to pages that are not hot: up to 256 bytes, 2 KiB, 16 KiB, and longer ones.
    pub sizes: [Explanation<WritePath>; CLASSES],
    /// Where such writes are unloaded, how many touches within the last 32 thousand writes make a page hot; its writes
    /// are offloaded.
    pub hot_heat: u32,
    /// One write in so many is looked at.
    pub looks_one_in: u32,
}

impl fmt::Display for PolicyExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["up to 256 B", "up to 2 KiB", "up to 16 KiB", "longer"];
        for (name, size) in names.into_iter().zip(&self.sizes) {
            if size.cost.is_some() || size.rival.is_some() {
                writeln!(f, "cold writes, {name}: {size}")?;
            }
        }
        let Self { hot_heat, looks_one_in, .. } = self;
        write!(
            f,
            "hot pages (offloaded in any case): {hot_heat} touches; one write in {looks_one_in} is looked at"
        )
    }
}

#[cfg(test)]
mod tests;
