//! Calls at an agent that forgets what it knew, loses its memory server, or is replaced by another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outboard::{CallError, CallPlacement, CallSite, Caller, FunctionOptions, Rights};
use outboard_calling::{Begin, Dispatcher, FunctionNeeds, SLOTS, SiteLink, SlotTable};
use outboard_driver::calling::{CallerThread, draw_caller};
use outboard_link::shm::{ShmConfig, ShmLink, ShmListener};
use outboard_link::{Address, Clock, Disposition, Exports, Identity, Link};
use outboard_steering::Site;
use outboard_wire::calling::{
    CALL, Call, CallFailure, FAILED, Failed, Moving, REGISTER, REGISTERED, RESUME, Register, RegisterVerdict,
    Registered, SlotSites,
};
use outboard_wire::{FrameHead, Role};

use crate::moving::{READ_COUNT_READ, allowed, config, shm_link, tcp_link};
use crate::world::{COUNT, Daemons, caller_placed, image, memory};
use outboard_e2e::PATIENCE;

/// Takes every function and runs none: what it is asked to run it has forgotten, or cannot go on with. Ends when told.
/// Returns how many calls came, and how many came in the middle of their run.
fn forget_everything(listener: &ShmListener, is_over: &AtomicBool) -> (usize, usize) {
    let clock = Clock::start();
    let mut accepting = loop {
        if let Some(accepting) = listener.accept(clock.now()).unwrap() {
            break accepting;
        }
    };
    let mut link: ShmLink = loop {
        if let Some(link) = accepting.poll(clock.now()).unwrap() {
            break link;
        }
    };
    let mut seen = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let mut answers = Vec::new();
        let fail = |call, failure| (FAILED, Failed { call, failure }.encode().to_vec());
        let progressed = link.progress(clock.now());
        let received = link.receive(64, |frame| {
            let payload = frame.payload.to_vec();
            match frame.head.kind {
                REGISTER => {
                    let handle = Register::decode(&payload).unwrap().handle;
                    let mut answer = Vec::new();
                    Registered { handle, verdict: RegisterVerdict::Ready, detail: String::new() }
                        .encode(&mut answer);
                    answers.push((REGISTERED, answer));
                }
                CALL => {
                    seen.0 += 1;
                    let Call { call, .. } = Call::decode(payload[..Call::LEN].try_into().unwrap()).unwrap();
                    answers.push(fail(call, CallFailure::NoFunction));
                }
                RESUME => {
                    seen.1 += 1;
                    answers.push(fail(Moving::decode(&payload).unwrap().call, CallFailure::NotResumed));
                }
                _ => {}
            }
            Disposition::Taken
        });
        for (kind, answer) in answers {
            // Who has left hears no answer.
            let _ = link.send(FrameHead::new(kind), &answer);
        }
        if progressed.and(received).and_then(|_| link.flush()).is_err() {
            break;
        }
        std::thread::yield_now();
    }
    seen
}

#[test]
fn calls_that_an_agent_cannot_run_or_go_on_with_end_well_elsewhere() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    memory.write(&region, 8, &7u64.to_le_bytes()).unwrap();
    let address = Address::Abstract(format!("outboard-forgetful-{}", std::process::id()));
    let identity = Identity::new(Role::Agent, "forgetful");
    let listener = ShmListener::bind(&address, identity, Exports::new(), ShmConfig::default()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let agent = scope.spawn(|| forget_everything(&listener, &is_over));
        // Over TCP calls are suspended in the application, and can be moved in the middle of their run.
        let (link, caller) = (tcp_link(&daemons.tcp()), draw_caller());
        let by_agent = SiteLink::new(shm_link(&address), caller, link.peer().incarnation());
        let mut thread = CallerThread::new(Dispatcher::new(
            link,
            Some(by_agent),
            caller,
            config(64, CallPlacement::Steered),
        ));
        let wanted =
            FunctionNeeds { regions: vec![allowed(&region, Rights::ALL)], fuel: 10_000, reply_max: 64 };
        let handle = thread.register(&image(READ_COUNT_READ), wanted, PATIENCE).unwrap();
        let mut table =
            SlotTable::from_wire(&SlotSites { epoch: 1 << 20, sites: [Site::Application; SLOTS] });
        thread.dispatcher.adopt(table);
        let (mut begun, mut ended, until) = (0, 0, Instant::now() + PATIENCE);
        while ended < 600 {
            assert!(Instant::now() < until, "{:?}", thread.dispatcher.sites());
            let is_known_here = thread.dispatcher.sites()[Site::Application as usize].answered > 0;
            if begun < 600 && thread.dispatcher.under_way() < 48 {
                let (arguments, patience) = (&[0; 8], Some(PATIENCE));
                thread.begin(&Begin { handle, slot: begun as u8, arguments, patience }).unwrap();
                begun += 1;
            }
            thread.turn(&mut |call, result| {
                let (_, reply) = result.unwrap_or_else(|fault| panic!("{call}: {fault:?}"));
                assert_eq!(reply, 7u64.to_le_bytes().repeat(4));
                ended += 1;
            });
            if begun % 16 == 0 && is_known_here {
                let to = if begun % 32 == 0 { Site::Agent } else { Site::Application };
                table.assign(0..=(SLOTS - 1) as u8, to);
                thread.dispatcher.adopt(table);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let (calls, moved) = agent.join().unwrap();
        assert!(calls > 0 && moved > 0, "{calls} calls, {moved} of them moved");
    });
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), 600, "every call once");
}

fn caller_of(daemons: &Daemons, agent: &Daemons, placement: CallPlacement) -> Caller {
    caller_placed(&daemons.shm(), &agent.shm(), placement)
}

#[test]
fn a_call_at_an_agent_that_loses_its_server_is_lost_and_later_ones_are_not() {
    let daemons = Daemons::start_within("2s");
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let agent = daemons.agent(&daemons.tcp());
    let mut caller = caller_of(&daemons, &agent, CallPlacement::Fixed(CallSite::Agent));
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&image(COUNT), options).unwrap();
    assert_eq!(caller.call(count, &1u64.to_le_bytes()).unwrap().value, 0);
    daemons.stop();
    for _ in 0..20 {
        caller.begin(count, &1u64.to_le_bytes()).unwrap();
    }
    let mut perhaps = 0;
    for _ in 0..20 {
        match caller.wait(PATIENCE).expect("it ends").result {
            Err(CallError::Lost { error, may_have_run }) => {
                assert!(error.to_string().contains("has lost its own link"), "{error}");
                perhaps += u64::from(may_have_run);
            }
            other => panic!("{other:?}"),
        }
    }
    daemons.go_on();
    // The agent finds its server again, and is told of the function again.
    let until = Instant::now() + PATIENCE;
    let value = loop {
        assert!(Instant::now() < until, "{:?}", caller.sites());
        match caller.call(count, &1u64.to_le_bytes()) {
            Ok(reply) => break reply.value,
            Err(error) => assert!(!error.may_have_run(), "{error}"),
        }
        std::thread::yield_now();
    };
    assert!((1..=1 + perhaps).contains(&value), "{value}, of {perhaps} that may have run");
}

#[test]
fn an_agent_that_comes_back_is_used_again() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let agent = daemons.agent(&daemons.shm());
    let mut caller = caller_of(&daemons, &agent, CallPlacement::Hinted(CallSite::Agent));
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&image(COUNT), options).unwrap();
    let mut calls = 0;
    let mut call_until = |caller: &mut Caller, is_there: &dyn Fn(u64) -> bool| {
        let until = Instant::now() + PATIENCE;
        loop {
            let before = caller.sites()[CallSite::Agent as usize].answered;
            match caller.call(count, &1u64.to_le_bytes()) {
                Ok(reply) => assert_eq!(reply.value, calls),
                // Sent before anybody knew that the agent was dead.
                Err(CallError::Lost { may_have_run: true, .. }) => continue,
                Err(error) => panic!("{error}"),
            }
            calls += 1;
            if is_there(caller.sites()[CallSite::Agent as usize].answered - before) {
                return;
            }
            assert!(Instant::now() < until, "{:?}", caller.sites());
        }
    };
    call_until(&mut caller, &|answered| answered > 0);
    let address = agent.shm();
    drop(agent);
    call_until(&mut caller, &|answered| answered == 0);
    let _agent = daemons.agent_at(&address, &daemons.shm());
    call_until(&mut caller, &|answered| answered > 0);
    assert!(caller.wait(Duration::ZERO).is_none());
}
