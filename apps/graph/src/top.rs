//! The vertices with the highest values.

/// How many of them a summary names.
const NAMED: usize = 5;

/// Up to five vertices of the highest values, the highest first, of equals the smallest.
pub(crate) fn top<T: Copy + PartialOrd>(values: &[T]) -> Vec<(u32, T)> {
    let mut top: Vec<(u32, T)> = Vec::with_capacity(NAMED + 1);
    for (vertex, &value) in values.iter().enumerate() {
        if top.len() == NAMED && value <= top[NAMED - 1].1 {
            continue;
        }
        let place = top.partition_point(|(_, higher)| *higher >= value);
        top.insert(place, (vertex as u32, value));
        top.truncate(NAMED);
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_come_first_and_of_equals_the_smallest() {
        assert_eq!(top::<f32>(&[]), []);
        assert_eq!(top(&[1, 3, 2]), [(1, 3), (2, 2), (0, 1)]);
        assert_eq!(top(&[2, 9, 2, 9, 2, 9, 2, 9]), [(1, 9), (3, 9), (5, 9), (7, 9), (0, 2)]);
    }
}
