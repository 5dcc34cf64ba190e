//! Vectored writes: several writes that end as one.

use std::collections::BTreeMap;

use outboard_writing::WriteId;

use super::WriteCompletion;

/// The parts of one vectored write. No other write begins between its first and its last.
#[derive(Debug)]
struct Group {
    last: WriteId,
    /// Parts that have begun and not ended.
    left: u64,
    /// Parts that have not begun.
    to_begin: usize,
    /// The first failure, or the end of the last part.
    told: Option<WriteCompletion>,
}

/// The vectored writes under way, each by its first part.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<WriteId, Group>,
}

impl Groups {
    /// The first of several parts has begun, and so many others will.
    pub(super) fn begin(&mut self, first: WriteId, others: usize) {
        self.groups.insert(first, Group { last: first, left: 1, to_begin: others, told: None });
    }

    /// The next part of the latest has begun.
    pub(super) fn go_on(&mut self, part: WriteId) {
        if let Some(mut latest) = self.groups.last_entry() {
            let group = latest.get_mut();
            group.last = part;
            group.left += 1;
            group.to_begin -= 1;
        }
    }

    /// The other parts of the latest will never begin. Returns what is to be told of it, if those that began have ended.
    pub(super) fn give_up(&mut self) -> Option<WriteCompletion> {
        let (first, group) = self.groups.iter_mut().next_back()?;
        group.to_begin = 0;
        let first = *first;
        self.finish(first)
    }

    /// The completion to be told of this one: itself, or of a vectored write the whole when it was the last part.
    pub(super) fn filter(&mut self, completion: WriteCompletion) -> Option<WriteCompletion> {
        let before = self.groups.range_mut(..=completion.id).next_back();
        let Some((first, group)) = before.filter(|(_, group)| completion.id <= group.last) else {
            return Some(completion);
        };
        group.left -= 1;
        let is_news = match &group.told {
            None => true,
            Some(told) => told.result.is_ok() && (completion.result.is_err() || completion.id == group.last),
        };
        if is_news {
            group.told = Some(completion);
        }
        let first = *first;
        self.finish(first)
    }

    fn finish(&mut self, first: WriteId) -> Option<WriteCompletion> {
        let group = self.groups.get(&first)?;
        if group.left > 0 || group.to_begin > 0 {
            return None;
        }
        let group = self.groups.remove(&first)?;
        group.told.map(|told| WriteCompletion { id: group.last, ..told })
    }
}

#[cfg(test)]
mod tests {
    use outboard_link::AccessError;
    use outboard_writing::WritePath;

    use super::super::WriteError;
    use super::*;

    fn end(id: u64, result: Result<(), WriteError>) -> WriteCompletion {
        WriteCompletion { id: WriteId(id), path: WritePath::Offload, result }
    }

    #[test]
    fn a_vectored_write_is_told_once_when_all_parts_have_ended() {
        let mut groups = Groups::default();
        groups.begin(WriteId(3), 2);
        groups.go_on(WriteId(4));
        groups.go_on(WriteId(5));
        assert!(groups.filter(end(5, Ok(()))).is_none());
        assert_eq!(groups.filter(end(9, Ok(()))).unwrap().id, WriteId(9));
        assert!(groups.filter(end(4, Err(AccessError::NotOpen.into()))).is_none());
        let told = groups.filter(end(3, Ok(()))).unwrap();
        assert!(told.id == WriteId(5) && told.result.is_err(), "{told:?}");
        assert!(groups.groups.is_empty());
    }

    #[test]
    fn many_end_in_any_order() {
        const MANY: u64 = 16_384;
        let mut groups = Groups::default();
        // Each has two parts, and a write by itself comes after it.
        for first in (0..MANY).map(|number| 3 * number) {
            groups.begin(WriteId(first), 1);
            groups.go_on(WriteId(first + 1));
        }
        let mut ids: Vec<u64> = (0..3 * MANY).collect();
        fastrand::Rng::with_seed(4).shuffle(&mut ids);
        let told = ids.into_iter().filter_map(|id| groups.filter(end(id, Ok(()))));
        let mut told: Vec<u64> = told.map(|told| told.id.0).collect();
        told.sort_unstable();
        assert!(told.into_iter().eq((0..3 * MANY).filter(|id| id % 3 > 0)));
        assert!(groups.groups.is_empty());
    }

    #[test]
    fn parts_may_end_before_others_begin_and_a_part_may_never_begin() {
        let mut groups = Groups::default();
        groups.begin(WriteId(1), 2);
        assert!(groups.filter(end(1, Err(AccessError::NotOpen.into()))).is_none());
        groups.go_on(WriteId(2));
        assert!(groups.filter(end(2, Ok(()))).is_none(), "the third has not begun");
        let told = groups.give_up().unwrap();
        assert!(told.id == WriteId(2) && told.result.is_err(), "{told:?}");
        groups.begin(WriteId(3), 1);
        assert!(groups.give_up().is_none(), "the first has not ended");
        assert!(groups.filter(end(3, Ok(()))).is_some());
    }
}
