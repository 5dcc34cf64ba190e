//! Calls that go on as another function.

use super::*;

/// Replies its first word, and goes on as the function that the second names, with the first less one and the others.
const STEP: &str = "
    ldxdw r6, [r1+0]
    ldxdw r7, [r1+8]
    stxdw [r10-8], r7
    mov r8, r6
    add r8, -1
    stxdw [r10-16], r8
    stxdw [r10-24], r6
    mov r1, r10
    add r1, -24
    mov r2, 8
    call reply
    mov r1, 0
    mov r2, 16
    mov r3, 1
    call region_fetch_add
    jeq r6, 0, end
    mov r1, r7
    mov r2, r10
    add r2, -16
    mov r3, 16
    call forward
    end:
    mov r0, r6
    exit";

fn arguments(steps: u64, next: u64) -> Vec<u8> {
    [steps, next].map(u64::to_le_bytes).concat()
}

#[test]
fn a_call_goes_on_as_another_function() {
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        let client = world.client();
        world.bind(client, 3, STEP);
        world.bind(client, 4, "ldxdw r0, [r1+0]\nadd r0, 100\nexit");
        // Twice itself, then it has counted down.
        let (value, reply) = world.call(client, 3, &arguments(2, 3)).unwrap();
        let words: Vec<u64> = reply.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!((value, words), (0, vec![2, 1, 0]));
        assert_eq!(world.regions[0].borrow()[16], 3);
        let (value, reply) = world.call(client, 3, &arguments(8, 4)).unwrap();
        assert_eq!((value, reply), (107, 8u64.to_le_bytes().to_vec()));
        assert!(world.call(client, 4, &arguments(0, 0)).is_ok(), "calls end once");
        assert!(world.executor.is_idle());
    }
}

#[test]
fn going_on_is_bounded_and_needs_a_function() {
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        let (client, other) = (world.client(), world.client());
        world.bind(client, 3, STEP);
        world.bind(other, 5, STEP);
        let reason = |given: Given| match given {
            Err(Failure::Trapped { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        for next in [4, 5, 4095, 4096, u64::MAX] {
            let at_the_call = Failure::Trapped { index: 20, reason: TrapReason::NoForward, address: 0 };
            assert_eq!(world.call(client, 3, &arguments(1, next)), Err(at_the_call), "{next}");
        }
        assert_eq!(reason(world.call(client, 3, &arguments(1000, 3))), TrapReason::ReplyTooLong);
        let endless = "mov r1, 6\nmov r2, r10\nadd r2, -8\nmov r3, 8\nstxdw [r10-8], r3\ncall forward\nexit";
        world.bind(client, 6, endless);
        let given = reason(world.call(client, 6, &[]));
        assert!(matches!(given, TrapReason::OutOfFuel | TrapReason::CopiedTooMuch), "{given:?}");
        assert!(world.call(client, 3, &arguments(0, 0)).is_ok(), "others go on");
    }
}

#[test]
fn whether_a_function_may_go_on_as_another_is_seen_in_its_code() {
    let image = |text| FunctionImage::from_text(text, "main").unwrap();
    assert!(image(STEP).may_forward());
    assert!(!image(COUNT).may_forward());
}
