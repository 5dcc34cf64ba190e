//! Budgets that change.

use std::sync::Arc;

use super::*;

/// Shards with a budget of so many chunks, which may become three times as large.
fn shards<const N: usize>(chunks: usize) -> (Arc<Pool>, [Shard; N]) {
    let pool = Arc::new(Pool::new(chunks * CHUNK, 3 * chunks * CHUNK, N));
    let shards = std::array::from_fn(|_| {
        let mut shard = Shard::of(Arc::clone(&pool));
        shard.prepare(CLASS);
        shard
    });
    (pool, shards)
}

/// Touches chunks, with what the caller of a shard does for that.
fn touch(shard: &mut Shard, chunks: std::ops::Range<u32>) {
    for index in chunks {
        loop {
            match shard.fault(key(index), CLASS, Access::Write) {
                Answer::Fetch(seat) => {
                    assert_eq!(shard.filled(seat, false), ArrivalStep::MoveIn);
                    shard.arrived(seat);
                }
                Answer::Rescue(seat) => shard.rescued(seat),
                Answer::Here => break,
                Answer::MakeRoom => {
                    let seat = shard.oldest().expect("it was said");
                    shard.left(seat, false);
                }
                answer => panic!("{answer:?}"),
            }
        }
    }
}

/// Does the work of fault threads while no thread waits, until there is none. Returns how often they looked.
fn drain(shards: &mut [Shard]) -> usize {
    let mut turns = 0;
    loop {
        turns += 1;
        let mut moved = false;
        for shard in shards.iter_mut() {
            let before = shard.used();
            moved |= shard.give_back();
            assert!(before - shard.used() <= 16 * CHUNK, "faults wait meanwhile");
            if shard.wants_room()
                && let Some(seat) = shard.next_to_leave()
            {
                shard.left(seat, false);
                moved = true;
            }
            shard.settle();
        }
        if !moved {
            return turns;
        }
    }
}

#[test]
fn a_budget_that_shrinks_is_given_back_and_one_that_grows_is_used() {
    let (pool, mut shards) = shards::<4>(40);
    for (number, shard) in shards.iter_mut().enumerate() {
        touch(shard, number as u32 * 1000..number as u32 * 1000 + 10);
    }
    assert_eq!(pool.used(), 40 * CHUNK);
    assert_eq!(pool.set_budget(20 * CHUNK), 40 * CHUNK);
    drain(&mut shards);
    assert!(pool.used() <= 20 * CHUNK && !pool.is_over());
    assert!(shards.iter().all(|shard| shard.used() <= 5 * CHUNK), "each has its share of what is left");
    assert_eq!(shards.iter().map(Shard::used).sum::<usize>(), pool.used());
    let emptied: usize =
        shards.iter_mut().map(|shard| std::iter::from_fn(|| shard.discarded()).count()).sum();
    assert!(emptied >= 20, "the memory of {emptied} frames goes back to the system");
    // More than it ever was, and no more than it may become.
    pool.set_budget(1000 * CHUNK);
    assert_eq!(pool.budget(), 120 * CHUNK);
    for (number, shard) in shards.iter_mut().enumerate() {
        touch(shard, number as u32 * 1000..number as u32 * 1000 + 30);
        assert_eq!((shard.residents(), shard.used()), (30, 30 * CHUNK));
    }
}

#[test]
fn a_shard_uses_what_is_left_while_it_shrinks() {
    let (pool, mut shards) = shards::<2>(32);
    touch(&mut shards[0], 0..16);
    touch(&mut shards[1], 1000..1016);
    pool.set_budget(8 * CHUNK);
    // Chunks come and go meanwhile: none of them makes it grow.
    for round in 0..40 {
        let before = pool.used();
        touch(&mut shards[0], 100 + round..102 + round);
        assert!(pool.used() <= before, "in round {round}");
    }
    drain(&mut shards);
    assert!(pool.used() <= 8 * CHUNK);
    touch(&mut shards[1], 2000..2016);
    assert!(pool.used() <= 8 * CHUNK);
}

#[test]
fn what_was_asked_for_is_no_more_than_the_share_that_is_left() {
    let (pool, mut shards) = shards::<2>(16);
    touch(&mut shards[0], 0..16);
    // The other has asked for four of its own.
    for index in 1000..1004 {
        assert_eq!(shards[1].fault(key(index), CLASS, Access::Read), Answer::Parked);
    }
    shards[1].settle();
    assert_eq!(pool.wanted(), 4 * CHUNK);
    pool.set_budget(4 * CHUNK);
    shards[1].settle();
    assert_eq!(pool.wanted(), 14 * CHUNK, "twelve too many, and two of its own");
    drain(&mut shards);
    assert!(pool.used() + 2 * CHUNK <= 4 * CHUNK, "{} are left", pool.used() / CHUNK);
    while let Some((key, class, access)) = shards[1].unpark() {
        if !matches!(shards[1].fault(key, class, access), Answer::Fetch(_)) {
            break;
        }
    }
    assert_eq!(shards[1].used(), 2 * CHUNK);
}
