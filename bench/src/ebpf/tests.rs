use super::*;

#[test]
fn every_question_has_an_answer() {
    let progress = Progress::silent();
    for question in QUESTIONS {
        let bench = Bench { name: question.name, effort: Effort::Tiny, progress: &progress };
        let figure = (question.ask)(bench).unwrap_or_else(|error| panic!("{}: {error}", question.name));
        assert_eq!(figure.name, question.name);
        assert!(figure.value.is_finite() && figure.yardstick >= 0.0, "{figure:?}");
    }
}

#[test]
fn all_engines_find_the_same() {
    let query = native::Query::hit_in_last_slot();
    assert_eq!(native::bucket_lookup(&query), query.answer());
    let (lookup, mixer) = (program_of_object(LOOKUP).unwrap(), program_of_object(LOOP).unwrap());
    let (context, mixed) = (query.bytes(), native::mix(ROUNDS, 1));
    Function::interpreted(lookup.clone(), &context).unwrap().must_return(query.answer()).unwrap();
    Function::compiled(lookup.clone(), &context).unwrap().must_return(query.answer()).unwrap();
    Function::interpreted(mixer.clone(), &loop_context()).unwrap().must_return(mixed).unwrap();
    Function::compiled(mixer, &loop_context()).unwrap().must_return(mixed).unwrap();
    let bytecode = encode(lookup.code());
    assert_eq!(Theirs::compiled(bytecode, &query.bytes()).unwrap().call_compiled(), query.answer());
}

#[test]
fn a_run_that_travels_returns() {
    let mut waiting = Waiting::new().unwrap();
    waiting.suspend().unwrap();
    let expected = 7 + 64 + 0x0505_0505_0505_0505;
    assert_eq!(waiting.result_after_travel(), Some(outboard_ebpf::Exit::Returned(expected)));
}
