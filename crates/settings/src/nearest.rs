//! What was probably meant by a name that does not exist.

/// The candidate most like `name`, if one is like it at all.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &&str| distance(name, candidate);
    let best = candidates.into_iter().min_by_key(likeness)?;
    (distance(name, best) <= 1 + name.chars().count() / 4).then_some(best)
}

/// How many characters have to be changed, added, left out or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for i in 0..one.len() {
        let mut row = vec![i + 1];
        for j in 0..other.len() {
            let changed = above[j] + usize::from(one[i] != other[j]);
            let mut best = changed.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && one[i] == other[j - 1] && one[i - 1] == other[j] {
                let swapped: usize = before[j - 1];
                best = best.min(swapped + 1);
            }
            row.push(best);
        }
        (before, above) = (above, row);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_counted() {
        for (one, other, errors) in
            [("", "", 0), ("listen", "listen", 0), ("lisetn", "listen", 1), ("lsten", "listen", 1)]
        {
            assert_eq!(distance(one, other), errors, "{one} {other}");
            assert_eq!(distance(other, one), errors, "{one} {other}");
        }
        assert_eq!(distance("memory", ""), 6);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn what_is_unlike_everything_is_not_guessed() {
        let names = ["memory.listen", "memory.name", "agent.listen"];
        assert_eq!(nearest("memroy.listne", names), Some("memory.listen"));
        assert_eq!(nearest("zzz", names), None);
        assert_eq!(nearest("x", []), None);
    }
}
