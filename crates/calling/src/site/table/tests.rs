//! Who gets how much of a table, and whose functions are looked at when.

use outboard_ebpf::{Engine, Exit};

use super::*;

const ANNA: CallerId = CallerId([1; 16]);
const BERT: CallerId = CallerId([2; 16]);

fn image(number: u32) -> FunctionImage {
    FunctionImage::from_text(&format!("mov r0, {number}\nexit"), "main").unwrap()
}

/// Of more than a lane for short functions takes.
fn long_image(number: u32) -> FunctionImage {
    let adds = "add r0, 1\n".repeat(2100);
    FunctionImage::from_text(&format!("mov r0, {number}\n{adds}exit"), "main").unwrap()
}

/// The functions that a thread of a lane would look at, in order.
fn next(table: &mut FunctionTable, lane: FunctionLength) -> Vec<FunctionName> {
    std::iter::from_fn(|| table.next_job(lane).map(|job| job.run(|_| {}).name)).collect()
}

fn do_jobs(table: &mut FunctionTable) {
    for lane in [FunctionLength::Short, FunctionLength::Long] {
        while let Some(job) = table.next_job(lane) {
            table.done(job.run(|_| {}));
        }
    }
}

#[test]
fn a_function_is_prepared_once() {
    let mut table = FunctionTable::new(TableLimits::default());
    assert!(matches!(table.find(image(1).name()), Found::Nothing));
    assert_eq!(table.offer(ANNA, image(1)).unwrap(), Some(FunctionLength::Short), "it needs a thread");
    assert_eq!(table.offer(ANNA, image(1)).unwrap(), None);
    assert_eq!(table.offer(ANNA, image(2)).unwrap(), None, "the thread takes all there are");
    assert!(matches!(table.find(image(1).name()), Found::Preparing));
    do_jobs(&mut table);
    for number in [1, 2] {
        let Found::Ready(function) = table.find(image(number).name()) else { panic!("not ready") };
        assert_eq!(function.name(), image(number).name());
    }
    assert_eq!(table.offer(ANNA, image(3)).unwrap(), Some(FunctionLength::Short), "the thread has ended");
}

#[test]
fn bad_functions_are_remembered_as_such() {
    let mut table = FunctionTable::new(TableLimits::default());
    let mut bytes = image(1).bytes().to_vec();
    bytes.pop();
    let damaged = FunctionImage::from_bytes(bytes);
    let name = damaged.name();
    table.offer(ANNA, damaged).unwrap();
    do_jobs(&mut table);
    let Found::Bad(RegisterRefusal::BadCode, detail) = table.find(name) else { panic!("not bad") };
    assert!(detail.contains("ends too early"), "{detail}");
}

#[test]
fn a_full_table_forgets_functions_without_a_client() {
    let limits = TableLimits { functions: 4, ..TableLimits::default() };
    let mut table = FunctionTable::new(limits);
    table.offer(ANNA, image(1)).unwrap();
    table.offer(ANNA, image(2)).unwrap();
    assert_eq!(table.offer(ANNA, image(3)).unwrap_err().0, RegisterRefusal::TooMuch);
    do_jobs(&mut table);
    let used = table.find(image(1).name());
    table.offer(ANNA, image(3)).unwrap();
    assert!(matches!(used, Found::Ready(_)));
    assert!(matches!(table.find(image(1).name()), Found::Ready(_)), "it is in use");
    assert!(matches!(table.find(image(2).name()), Found::Nothing));
    let small = TableLimits { image_bytes: 8, ..limits };
    assert_eq!(FunctionTable::new(small).offer(ANNA, image(1)).unwrap_err().0, RegisterRefusal::TooMuch);
}

#[test]
fn without_a_thread_to_prepare_no_client_waits() {
    let mut table = FunctionTable::new(TableLimits::default());
    assert!(table.offer(ANNA, image(1)).unwrap().is_some());
    table.no_thread_prepares(FunctionLength::Short, "no thread");
    assert!(matches!(table.find(image(1).name()), Found::Bad(RegisterRefusal::TooMuch, _)));
    assert!(table.offer(ANNA, image(2)).unwrap().is_some());
}

#[test]
fn no_client_takes_what_is_left_for_others() {
    let mut table = FunctionTable::new(TableLimits { functions: 100, ..TableLimits::default() });
    let taken = |table: &mut FunctionTable, by, first: u32| {
        (first..).take_while(|number| table.offer(by, image(*number)).is_ok()).count()
    };
    assert_eq!(taken(&mut table, ANNA, 0), 50);
    assert_eq!(taken(&mut table, BERT, 1000), 25);
    let (_, detail) = table.offer(ANNA, image(2000)).unwrap_err();
    assert!(detail.contains("has 50 of the 75 functions here, and 25 are left"), "{detail}");
    assert!(table.offer(CallerId([3; 16]), image(2000)).is_ok());
    assert_eq!(table.offer(BERT, image(7)).unwrap(), None, "what is known takes no room");
    // Room without a client is given back to those who had it.
    do_jobs(&mut table);
    assert!(table.offer(BERT, image(3000)).is_ok());
    assert_eq!((table.len(), table.shares.len()), (1, 1));
    let few = TableLimits { functions_per_client: 3, ..TableLimits::default() };
    assert_eq!(taken(&mut FunctionTable::new(few), ANNA, 0), 3);
    let bytes = 10 * image(0).bytes().len();
    let little = TableLimits { total_bytes: bytes, ..TableLimits::default() };
    assert_eq!(taken(&mut FunctionTable::new(little), ANNA, 0), 5);
}

#[test]
fn clients_have_turns_in_being_looked_at() {
    let mut table = FunctionTable::new(TableLimits::default());
    for (by, number) in (0..10).map(|number| (ANNA, number)).chain([(BERT, 20), (BERT, 21)]) {
        table.offer(by, image(number)).unwrap();
    }
    let order = next(&mut table, FunctionLength::Short);
    assert_eq!(order.len(), 12);
    let expected = [0, 20, 1, 21, 2].map(|number| image(number).name());
    assert_eq!(order[..5], expected);
}

#[test]
fn short_functions_do_not_wait_for_long_ones() {
    let mut table = FunctionTable::new(TableLimits::default());
    for number in 0..4 {
        let lane = table.offer(ANNA, long_image(number)).unwrap();
        assert_eq!(lane, (number == 0).then_some(FunctionLength::Long));
    }
    assert_eq!(
        table.offer(BERT, image(1)).unwrap(),
        Some(FunctionLength::Short),
        "another thread looks at it"
    );
    assert_eq!(next(&mut table, FunctionLength::Short), [image(1).name()]);
    assert_eq!(next(&mut table, FunctionLength::Long).len(), 4);
}

#[test]
fn what_a_client_waits_for_is_given_up_when_it_goes() {
    let mut table = FunctionTable::new(TableLimits::default());
    for number in 0..4 {
        table.offer(ANNA, image(number)).unwrap();
        table.offer(ANNA, long_image(number)).unwrap();
    }
    // A thread has begun with the first, and another client waits for the second too.
    let begun = table.next_job(FunctionLength::Short).unwrap();
    assert_eq!(table.offer(BERT, image(1)).unwrap(), None);
    table.cancel(ANNA);
    assert_eq!((table.len(), table.bytes), (2, 2 * image(0).bytes().len()));
    assert!(matches!(table.find(image(2).name()), Found::Nothing));
    assert!(matches!(table.find(long_image(0).name()), Found::Nothing));
    table.done(begun.run(|_| {}));
    do_jobs(&mut table);
    for number in [0, 1] {
        assert!(matches!(table.find(image(number).name()), Found::Ready(_)), "{number}");
    }
    // What was given up can be brought again.
    table.offer(BERT, image(2)).unwrap();
    do_jobs(&mut table);
    assert!(matches!(table.find(image(2).name()), Found::Ready(_)));
}

#[test]
fn code_that_was_left_out_is_compiled_when_a_run_needs_it() {
    let text = "ldxdw r0, [r1+8]\nexit";
    let image = FunctionImage::from_text(text, "main").unwrap();
    let name = image.name();
    let mut table = FunctionTable::new(TableLimits::default());
    table.offer(ANNA, image).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let job = table.next_job(FunctionLength::Short).unwrap();
    table.done(job.run(move |name| tell.send(name).unwrap()));
    let Found::Ready(function) = table.find(name) else { panic!("not ready") };
    let mut instance = outboard_ebpf::Instance::default();
    let run = |instance: &mut outboard_ebpf::Instance, length: usize| {
        instance.set_context(&[1; 16][..length]).unwrap();
        function.code.start(instance, function.entry, &mut outboard_ebpf::NoHost, 10)
    };
    assert!(matches!(run(&mut instance, 16), Exit::Returned(_)));
    assert!(told.try_recv().is_err(), "what was proven holds");
    for _ in 0..2 {
        assert!(matches!(run(&mut instance, 8), Exit::Trapped(_)));
    }
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [name], "it is told once");
    assert!(table.next_job(FunctionLength::Short).is_none(), "the thread ends");
    assert_eq!(table.missed(name), Some(FunctionLength::Short), "another is needed");
    // Another client may use it, although the client has gone that has brought it.
    table.cancel(ANNA);
    let job = table.next_job(FunctionLength::Short).unwrap();
    assert!(matches!(job.what, What::Complete(_)));
    table.done(job.run(|_| {}));
    assert!(table.next_job(FunctionLength::Short).is_none());
    assert!(matches!(run(&mut instance, 8), Exit::Trapped(_)), "as before");
}

#[test]
fn a_program_that_is_too_much_is_refused_and_the_limit_is_named() {
    let calls = "call outboard_time\n".repeat(32_000);
    let image = FunctionImage::from_text(&format!("{calls}exit"), "main").unwrap();
    let (refusal, detail) = PreparedFunction::prepare(&image).unwrap_err();
    assert_eq!(refusal, RegisterRefusal::TooMuch);
    assert!(detail.contains(&Compiler::MAX_WORK.to_string()) && detail.contains("leave out"), "{detail}");
}
