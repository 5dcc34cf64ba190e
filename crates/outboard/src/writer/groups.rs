//! Vectored writes: several writes that end as one.

use outboard_writing::WriteId;

use super::WriteCompletion;

/// The parts of one vectored write, which have consecutive numbers.
#[derive(Debug)]
struct Group {
    first: WriteId,
    last: WriteId,
    left: u64,
    /// The first failure, or the end of the last part.
    told: Option<WriteCompletion>,
}

/// The vectored writes under way.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
}

impl Groups {
    pub(super) fn add(&mut self, first: WriteId, last: WriteId) {
        if first < last {
            self.groups.push(Group { first, last, left: last.0 - first.0 + 1, told: None });
        }
    }

    /// What is to be told of this completion: itself, or of a vectored write the whole when it was the last part.
    pub(super) fn filter(&mut self, completion: WriteCompletion) -> Option<WriteCompletion> {
        let found = self.groups.iter().position(|group| (group.first..=group.last).contains(&completion.id));
        let Some(at) = found else { return Some(completion) };
        let group = &mut self.groups[at];
        group.left -= 1;
        let is_news = match &group.told {
            None => true,
            Some(told) => told.result.is_ok() && (completion.result.is_err() || completion.id == group.last),
        };
        if is_news {
            group.told = Some(completion);
        }
        if group.left > 0 {
            return None;
        }
        let group = self.groups.swap_remove(at);
        group.told.map(|told| WriteCompletion { id: group.last, ..told })
    }
}

#[cfg(test)]
mod tests {
    use outboard_link::AccessError;
    use outboard_writing::Path;

    use super::*;

    fn end(id: u64, result: Result<(), AccessError>) -> WriteCompletion {
        WriteCompletion { id: WriteId(id), path: Path::Offload, result }
    }

    #[test]
    fn a_vectored_write_is_told_once_when_all_parts_have_ended() {
        let mut groups = Groups::default();
        groups.add(WriteId(3), WriteId(5));
        assert!(groups.filter(end(5, Ok(()))).is_none());
        assert_eq!(groups.filter(end(9, Ok(()))).unwrap().id, WriteId(9));
        assert!(groups.filter(end(4, Err(AccessError::NotOpen))).is_none());
        let told = groups.filter(end(3, Ok(()))).unwrap();
        assert!(told.id == WriteId(5) && told.result.is_err(), "{told:?}");
        assert!(groups.groups.is_empty());
    }
}
