use super::*;

fn broken(is_rash: bool) -> Option<String> {
    (0..30).find_map(|seed| {
        let recorder = Recorder::new(8);
        play_with(seed, &recorder, is_rash);
        recorder.broken().map(|broken| broken.promise)
    })
}

#[test]
fn all_sites_use_one_table() {
    assert_eq!(broken(false), None);
}

#[test]
fn a_put_that_is_taken_for_done_without_an_answer_is_noticed() {
    let promise = broken(true).unwrap();
    assert!(promise.contains("a single hash map"), "{promise}");
}
