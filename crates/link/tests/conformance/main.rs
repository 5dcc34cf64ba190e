//! What every link must do, whatever it is made of.
//!
//! Each check is written once against the traits. A link takes part with a [`Fixture`](fixture::Fixture); no
//! check asks which link it has, only what its `Capabilities` say.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod pair;

/// Runs all checks on each link.
macro_rules! conformance {
    ($($link:ident: $fixture:ty;)+) => {
        $(mod $link {
            use super::*;
            each_check! { $fixture =>
                frames: arrive_in_order, are_invisible_until_flushed, are_written_in_place,
                    are_committed_only_when_reserved, have_any_length_up_to_the_limit,
                    end_a_batch_before_what_is_too_long;
                pressure: loses_nothing, ends_without_a_flush, does_not_deadlock, defers_frames;
                death: in_the_middle_of_a_batch, before_a_frame_that_is_deferred, of_the_accepting_side,
                    with_a_goodbye, ends_operations;
                handshake: introduces_both_sides, agrees_with_the_next_release_and_the_one_before,
                    parts_with_builds_of_no_common_version, understands_the_versions_of_any_hello,
                    refuses_unknown_authentication, refuses_garbage;
                garbage: never_crashes_or_stalls, is_not_waited_for, is_called_by_its_name;
                access: reads_and_writes, does_atomics, completes_each_token_once,
                    orders_frames_after_writes, reopens_regions;
                long_reads: have_any_alignment, pass_among_frames, end_with_the_link;
                refusal: of_wrong_grants, of_roundabout_reads, beyond_the_grant, out_of_bounds, of_long_accesses, of_writes_without_the_right,
                    of_misaligned_atomics, of_foreign_handles, of_removed_regions;
                contention: keeps_sums, swaps_for_one_only, reads_whole_words, writes_whole_words;
                waiting: is_ended_by_frames, is_ended_by_room, is_ended_by_death, is_ended_by_its_limit;
            }
        })+
    };
}

macro_rules! each_check {
    ($fixture:ty => $($subject:ident: $($check:ident),+;)+) => {
        $(mod $subject {
            use super::*;
            $(
                #[test]
                fn $check() {
                    if let Some(why) = <$fixture as fixture::Fixture>::missing() {
                        println!("skipped: {why}");
                        return;
                    }
                    checks::$subject::$check::<$fixture>();
                }
            )+
        })+
    };
}

conformance! {
    shm: fixtures::Shm;
    tcp: fixtures::Tcp;
    tls_by_secret: fixtures::Tls<fixtures::Secret>;
    tls_by_keys: fixtures::Tls<fixtures::Keys>;
    loopback: fixtures::Loopback;
    ofi_tcp: fixtures::OfiTcp;
    ofi_tcp_lent: fixtures::OfiTcpLent;
    ofi_tcp_alone: fixtures::OfiTcpAlone;
    ofi_shm: fixtures::OfiShm;
    ofi_shm_lent: fixtures::OfiShmLent;
    ofi_verbs: fixtures::OfiVerbs;
    ofi_verbs_lent: fixtures::OfiVerbsLent;
    ofi_verbs_alone: fixtures::OfiVerbsAlone;
    shaped_shm: fixtures::Slow<fixtures::Shm>;
    shaped_tcp: fixtures::Slow<fixtures::Tcp>;
    shaped_tls: fixtures::Slow<fixtures::Tls<fixtures::Secret>>;
    shaped_loopback: fixtures::Slow<fixtures::Loopback>;
}
