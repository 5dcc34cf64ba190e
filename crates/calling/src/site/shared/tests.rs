//! Functions that take long to look at, of one client beside another's.

use std::time::{Duration, Instant};

use crate::Found;

use super::*;

const ANNA: CallerId = CallerId([1; 16]);
const BERT: CallerId = CallerId([2; 16]);
const PATIENCE: Duration = Duration::from_secs(120);

fn image(number: usize, instructions: usize) -> FunctionImage {
    let adds = "jeq r1, r0, +0\n".repeat(instructions);
    FunctionImage::from_text(&format!("mov r0, {number}\n{adds}exit"), "main").unwrap()
}

fn offer(shared: &Arc<SharedCalls>, by: CallerId, image: &FunctionImage) {
    shared.offer(by, image.name(), image.clone()).unwrap();
}

fn wait(shared: &SharedCalls, what: &str, is_so: impl Fn(&FunctionTable) -> bool) {
    let start = Instant::now();
    while !is_so(&shared.functions()) {
        assert!(start.elapsed() < PATIENCE, "no sign of: {what}");
        // tidy: allow(sleep) the table is looked at again until it says so, or too long
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// There is memory for everything.
fn at_once(_bytes: u64, work: &mut dyn FnMut()) -> Result<(), String> {
    work();
    Ok(())
}

#[test]
fn long_functions_of_one_client_keep_no_other_waiting_and_go_with_it() {
    let shared = SharedCalls::new(
        TableLimits::default(),
        |_| {},
        |work| drop(std::thread::spawn(|| work.run(at_once))),
    );
    let window = shared.window(ANNA).unwrap();
    let long: Vec<FunctionImage> = (0..24).map(|number| image(number, 16_000)).collect();
    long.iter().for_each(|image| offer(&shared, ANNA, image));
    for number in 0..8 {
        let short = image(number, 4);
        offer(&shared, BERT, &short);
        wait(&shared, "a short function", |table| matches!(table.find(short.name()), Found::Ready(_)));
    }
    drop(window);
    shared.link_lost(ANNA);
    // All but the one that the thread is at, and those that it has done.
    let given_up = |table: &FunctionTable| {
        let is = |image: &&FunctionImage| matches!(table.find(image.name()), Found::Preparing);
        long.iter().filter(is).count() <= 1
    };
    assert!(given_up(&shared.functions()), "what waited is given up at once");
    wait(&shared, "the one that the thread was at", |table| {
        !long.iter().any(|image| matches!(table.find(image.name()), Found::Preparing))
    });
    let last = image(99, 4);
    offer(&shared, ANNA, &last);
    wait(&shared, "a function of a client that has come again", |table| {
        matches!(table.find(last.name()), Found::Ready(_))
    });
}
