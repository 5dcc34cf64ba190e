//! What cannot be registered is refused in words.

use std::time::Duration;

use outboard::{Caller, FunctionImage, FunctionOptions, RegisterError, RegisterRefusal, Rights, Settings};
use outboard_link::{Disposition, Exports, Link, Waiter, shm};
use outboard_wire::calling::{
    CALL, CODE, Call, CallFailure, CallerId, CodePart, FAILED, Failed, OPEN, Open, REGISTER, REGISTERED,
    Register, RegisterVerdict, Registered,
};
use outboard_wire::{FrameHead, Incarnation};

use crate::world::{COUNT, Daemons, caller, caller_by, identity, image, memory};
use outboard_e2e::PATIENCE;

fn refused(error: RegisterError, refusal: RegisterRefusal, part: &str) {
    match error {
        RegisterError::Refused { refusal: given, detail, .. } => {
            assert_eq!(given, refusal, "{detail}");
            assert!(detail.contains(part), "“{part}” is not in “{detail}”");
        }
        error => panic!("{error}"),
    }
}

#[test]
fn keys_that_allow_less_than_the_function_wants() {
    let daemons = Daemons::start();
    let address = daemons.shm();
    let mut memory = memory(&address);
    let owned = memory.reserve_shared(4096, "region").unwrap();
    let readable = memory.open_shared("region", Rights::READ).unwrap();
    let callable = memory.open_shared("region", Rights::READ.and(Rights::CALL)).unwrap();
    let mut caller = caller(&address);
    let mut register = |region, rights| {
        caller.register(&image(COUNT), FunctionOptions::default().with_region(region, rights))
    };
    refused(register(&readable, Rights::READ).unwrap_err(), RegisterRefusal::NoRight, "read+call is needed");
    refused(register(&callable, Rights::WRITE).unwrap_err(), RegisterRefusal::NoRight, "write+call");
    let reads_only = register(&callable, Rights::READ).unwrap();
    let all = register(&owned, Rights::ALL).unwrap();
    let error = caller.call(reads_only, &[0; 8]).unwrap_err();
    assert!(error.to_string().contains("instruction 4") && error.to_string().contains("no right"), "{error}");
    caller.call(all, &[0; 8]).unwrap();
    let gone = memory.reserve(4096, None).unwrap();
    let options = FunctionOptions::default().with_region(&gone, Rights::READ);
    memory.free(gone).unwrap();
    refused(caller.register(&image(COUNT), options).unwrap_err(), RegisterRefusal::NoRegion, "no region");
}

#[test]
fn an_answer_that_comes_too_late_is_not_taken_for_that_of_another_function() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    for address in [daemons.shm(), daemons.tcp()] {
        let region = memory.reserve(4096, None).unwrap();
        let options = FunctionOptions::default().with_region(&region, Rights::ALL);
        let mut caller = caller(&address);
        let counts = caller.register(&image(COUNT), options.clone()).unwrap();
        daemons.stop();
        caller = caller.with_deadline(Duration::from_millis(100));
        caller.register(&image(COUNT), options).unwrap_err();
        daemons.go_on();
        caller = caller.with_deadline(PATIENCE);
        let other = caller.register(&image("mov r0, 553735\nexit"), FunctionOptions::default()).unwrap();
        for _ in 0..3 {
            assert_eq!(caller.call(other, &5u64.to_le_bytes()).unwrap().value, 553_735);
        }
        assert_eq!(caller.call(counts, &[0; 8]).unwrap().value, 0, "nobody has counted");
    }
}

#[test]
fn more_than_a_site_gives() {
    let daemons = Daemons::start();
    let mut caller = caller(&daemons.shm());
    let fuel = FunctionOptions::default().with_fuel(u64::MAX);
    refused(caller.register(&image(COUNT), fuel).unwrap_err(), RegisterRefusal::OverQuota, "of fuel");
    let reply = FunctionOptions::default().with_reply_max(u32::MAX);
    refused(caller.register(&image(COUNT), reply).unwrap_err(), RegisterRefusal::OverQuota, "bytes of reply");
    let long = image(&format!("{}exit", "add r0, 1\n".repeat(40_000)));
    let error = caller.register(&long, FunctionOptions::default()).unwrap_err();
    refused(error, RegisterRefusal::TooMuch, "this site takes");
}

#[test]
fn quotas_are_settings_of_the_site() {
    let quotas = ["--calling-fuel", "5000", "--calling-functions-per-client", "3", "--calling-code", "1KiB"];
    let daemons = Daemons::start_with(&quotas);
    let mut first = caller(&daemons.shm());
    let options = || FunctionOptions::default().with_fuel(5000);
    let fuel = first.register(&image(COUNT), options().with_fuel(5001)).unwrap_err();
    refused(fuel, RegisterRefusal::OverQuota, "at most 5000 of fuel (calling.fuel)");
    let long = image(&format!("{}exit", "add r0, 1\n".repeat(200)));
    let error = first.register(&long, options()).unwrap_err();
    refused(error, RegisterRefusal::TooMuch, "this site takes 1024");
    let numbered = |number: u32| image(&format!("mov r0, {number}\nexit"));
    for number in 0..3 {
        first.register(&numbered(number), options()).unwrap();
    }
    let error = first.register(&numbered(3), options()).unwrap_err();
    refused(error, RegisterRefusal::TooMuch, "3 functions here, as many as one can have");
    let mut second = caller(&daemons.shm());
    let function = second.register(&numbered(3), options()).unwrap();
    assert_eq!(second.call(function, &[]).unwrap().value, 3);
}

#[test]
fn nobody_opens_all_regions_that_an_agent_can_open() {
    let daemons = Daemons::start();
    let agent = daemons.agent(&daemons.shm());
    let mut memory = memory(&daemons.shm());
    let mut greedy = caller_by(&daemons.shm(), &agent.shm());
    let mut register = |caller: &mut Caller, regions: usize| {
        let regions: Vec<_> = (0..regions).map(|_| memory.reserve(4096, None).unwrap()).collect();
        let with = |options: FunctionOptions, region| options.with_region(region, Rights::ALL);
        caller.register(&image(COUNT), regions.iter().fold(FunctionOptions::default(), with))
    };
    for _ in 0..16 {
        register(&mut greedy, 16).unwrap();
    }
    let error = register(&mut greedy, 1).unwrap_err();
    refused(error, RegisterRefusal::TooMuch, "has 256 regions open here, and 256 are left for others");
    let mut modest = caller_by(&daemons.shm(), &agent.shm());
    let count = register(&mut modest, 16).unwrap();
    assert_eq!(modest.call(count, &1u64.to_le_bytes()).unwrap().value, 0);
}

#[test]
fn damaged_code_is_bad_for_everybody() {
    let daemons = Daemons::start();
    let mut bytes = image(COUNT).bytes().to_vec();
    bytes.pop();
    let damaged = FunctionImage::from_bytes(bytes);
    for _ in 0..2 {
        let mut caller = caller(&daemons.shm());
        let error = caller.register(&damaged, FunctionOptions::default()).unwrap_err();
        refused(error, RegisterRefusal::BadCode, "ends too early");
        caller.register(&image("mov r0, 1\nexit"), FunctionOptions::default()).unwrap();
    }
}

#[test]
fn code_under_a_wrong_name_and_messages_out_of_order() {
    let daemons = Daemons::start();
    let settings = Settings::default();
    let mut link = shm::connect(&daemons.shm(), identity(), Exports::new(), settings.link.shm()).unwrap();
    let waiter = Waiter::new();
    let (claimed, sent) = (image(COUNT), image("mov r0, 7\nexit"));
    let mut register = Vec::new();
    Register { handle: 3, reply_max: 8, fuel: 10, name: claimed.name(), regions: vec![] }
        .encode(&mut register);
    let mut ask = |kind, payload: &[u8]| {
        link.send(FrameHead::new(kind), payload).unwrap();
        link.flush().unwrap();
        let mut heard = None;
        let hear = |link: &mut shm::ShmLink| {
            link.receive(1, |frame| {
                heard = Some((frame.head.kind, frame.payload.to_vec()));
                Disposition::Taken
            })?;
            Ok(heard.take())
        };
        if kind == OPEN || kind == CODE {
            return None;
        }
        Some(waiter.until(&mut link, PATIENCE, "an answer", hear).unwrap())
    };
    let verdict = |answer: Option<(_, Vec<u8>)>| {
        let (kind, payload) = answer.unwrap();
        assert_eq!(kind, REGISTERED);
        let Registered { verdict, .. } = Registered::decode(&payload).unwrap();
        verdict
    };
    let malformed = RegisterVerdict::Refused(RegisterRefusal::Malformed);
    assert_eq!(verdict(ask(REGISTER, &register)), malformed, "nobody has said who calls");
    let call = Call { call: 9, handle: 3, patience_us: 0 }.encode();
    let failed = ask(CALL, &call).unwrap();
    assert_eq!(failed.0, FAILED);
    let nothing = Failed { call: 9, failure: CallFailure::NoFunction };
    assert_eq!(Failed::decode(&failed.1).unwrap(), nothing);
    ask(OPEN, &Open { caller: CallerId([7; 16]), server: Incarnation(1) }.encode());
    assert_eq!(verdict(ask(REGISTER, &[1, 2, 3])), malformed);
    assert_eq!(verdict(ask(REGISTER, &register)), RegisterVerdict::NeedsCode);
    let part = |offset: usize, bytes: &[u8]| {
        let total = sent.bytes().len() as u32;
        let head = CodePart { name: claimed.name(), total, offset: offset as u32 };
        [head.encode().as_slice(), bytes].concat()
    };
    // A part that does not follow what has come is as good as none.
    ask(CODE, &part(8, &sent.bytes()[8..]));
    assert_eq!(verdict(ask(REGISTER, &register)), RegisterVerdict::NeedsCode);
    ask(CODE, &part(0, &sent.bytes()[..8]));
    assert_eq!(verdict(ask(REGISTER, &register)), RegisterVerdict::NeedsCode);
    ask(CODE, &part(8, &sent.bytes()[8..]));
    assert_eq!(verdict(ask(REGISTER, &register)), RegisterVerdict::Refused(RegisterRefusal::WrongName));
    assert_eq!(
        verdict(ask(REGISTER, &register)),
        RegisterVerdict::NeedsCode,
        "the right code is still welcome"
    );
    assert_eq!(Failed::decode(&ask(CALL, &call).unwrap().1).unwrap(), nothing);
}
