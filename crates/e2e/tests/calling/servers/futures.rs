//! The same as futures.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use outboard::CallError;

use super::{NOWHERE, Place, chaser, list, values};
use outboard_e2e::PATIENCE;

/// Polls a future until it is ready, and does `idle` in between.
pub(super) fn poll_until_ready<F: Future>(future: F, mut idle: impl FnMut()) -> F::Output {
    let (mut future, until) = (pin!(future), Instant::now() + PATIENCE);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        assert!(Instant::now() < until, "it ends");
        idle();
    }
}

/// Polls futures until all have ended, tells each end, and does `idle` in between.
pub(crate) fn poll_until_all_end<F: Future>(
    futures: impl Iterator<Item = F>,
    mut idle: impl FnMut(),
    mut tell: impl FnMut(F::Output),
) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let until = Instant::now() + PATIENCE;
    while !futures.is_empty() {
        assert!(Instant::now() < until, "{} never end", futures.len());
        let mut context = Context::from_waker(Waker::noop());
        futures.retain_mut(|future| match future.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(output) => {
                tell(output);
                false
            }
        });
        idle();
    }
}

#[test]
fn futures_go_on_at_another_server() {
    let mut places = [Place::new(), Place::new()];
    list(&mut places, 5);
    places[0].record(480, 1, (7, 0));
    let (caller, chase) = chaser(&places);
    let caller = caller.into_async();
    for with_driver in [false, true] {
        let driver = with_driver.then(|| caller.driver());
        let drive = || {
            if let Some(driver) = &driver {
                driver.drive(Duration::from_millis(10));
            }
        };
        let calls: Vec<_> = (0..50).map(|_| Box::pin(caller.call(chase, &0u64.to_le_bytes()))).collect();
        for call in calls {
            assert_eq!(poll_until_ready(call, drive).unwrap().bytes, values(5));
        }
        let lost = poll_until_ready(caller.call(chase, &480u64.to_le_bytes()), drive).unwrap_err();
        assert!(matches!(lost, CallError::Trapped { .. }), "{lost}");
    }
    places[0].record(0, 3, (NOWHERE, 0));
    let patient = caller.call(chase, &0u64.to_le_bytes()).with_deadline(PATIENCE);
    assert_eq!(poll_until_ready(patient, || {}).unwrap().bytes, 3u64.to_le_bytes());
    assert_eq!(places[1].visits(), 2 * 50 * 2);
}
