//! Calls that wait at a site that hangs are in nobody's way, and end at some time.

use std::time::{Duration, Instant};

use outboard::{
    CallCompletion, CallError, CallPlacement, CallSite, Caller, CallerOptions, FunctionHandle,
    FunctionOptions, NoRoomBecause, Rights,
};
use outboard_calling::WINDOW;

use crate::world::{COUNT, Daemons, caller_of, caller_within, image, memory, patient_about};
use outboard_e2e::PATIENCE;

/// Far more calls than there are places for, and than sites remember.
const MANY: u64 = 2 * WINDOW;

/// After how long a silent site is given up: far longer than one that works is silent on a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(4);

struct Scene {
    daemons: Daemons,
    agent: Daemons,
    memory: outboard::Memory,
    region: outboard::FarRegion,
    caller: Caller,
    count: FunctionHandle,
}

impl Scene {
    /// A caller whose calls run at an agent that answers, until it has been silent for so long.
    fn new(deadline: Duration, placement: CallPlacement) -> Self {
        let daemons = Daemons::start();
        let mut memory = memory(&daemons.shm());
        let region = memory.reserve(4096, None).unwrap();
        let agent = daemons.agent(&daemons.shm());
        let options = CallerOptions::default().with_under_way_max(16).with_placement(placement);
        let outboard = patient_about(deadline, &daemons.shm()).with_agent(agent.shm());
        let mut caller = caller_of(&outboard, options);
        let count = FunctionOptions::default().with_region(&region, Rights::ALL);
        let count = caller.register(&image(COUNT), count).unwrap();
        Self { daemons, agent, memory, region, caller, count }
    }

    fn hinted(deadline: Duration) -> Self {
        Self::new(deadline, CallPlacement::Hinted(CallSite::Agent))
    }

    /// Stops the agent with so many calls under way there, and waits until it is silent. Returns those of them that have
    /// ended: whoever is kept from looking sees late that the agent is silent, and for too long already.
    fn hang(&mut self, calls: usize) -> Vec<CallCompletion> {
        self.agent.stop();
        for _ in 0..calls {
            self.caller.begin(self.count, &1u64.to_le_bytes()).unwrap();
        }
        let (until, mut ended) = (Instant::now() + PATIENCE, Vec::new());
        while !self.caller.sites()[CallSite::Agent as usize].is_silent && ended.len() < calls {
            assert!(Instant::now() < until, "{:?}", self.caller.sites());
            ended.extend(self.caller.poll());
        }
        ended
    }

    fn counted(&mut self) -> u64 {
        self.memory.fetch_add(&self.region, 16, 0).unwrap()
    }
}

#[test]
fn a_call_without_an_answer_is_in_nobodys_way() {
    let mut scene = Scene::hinted(PATIENCE * 10);
    assert!(scene.hang(3).is_empty());
    for number in 0..MANY {
        assert_eq!(scene.caller.call(scene.count, &1u64.to_le_bytes()).unwrap().value, number);
    }
    scene.agent.go_on();
    for _ in 0..3 {
        scene.caller.wait(PATIENCE).expect("it ends").result.unwrap();
    }
    assert_eq!(scene.counted(), MANY + 3);
    // The agent is used again.
    let until = Instant::now() + PATIENCE;
    while scene.caller.sites()[CallSite::Agent as usize].answered < 10 {
        assert!(Instant::now() < until, "{:?}", scene.caller.sites());
        scene.caller.call(scene.count, &0u64.to_le_bytes()).unwrap();
    }
}

#[test]
fn an_agent_that_stays_silent_is_not_waited_for() {
    let mut scene = Scene::hinted(GIVEN_UP);
    let mut ended = scene.hang(10);
    while ended.len() < 10 {
        ended.push(scene.caller.wait(PATIENCE).expect("it ends"));
    }
    for completion in ended {
        match completion.result {
            Err(CallError::Lost { error, may_have_run: true }) => {
                assert!(error.to_string().contains("silent for"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(scene.caller.under_way(), 0);
    for _ in 0..20 {
        scene.caller.call(scene.count, &1u64.to_le_bytes()).unwrap();
    }
    scene.agent.go_on();
    // What it answers now is for nobody.
    let until = Instant::now() + PATIENCE;
    while scene.counted() < 30 {
        assert!(Instant::now() < until, "it does what it was asked");
        assert!(scene.caller.poll().is_none());
    }
    let calls = (0..10).map(|_| scene.caller.call(scene.count, &1u64.to_le_bytes()).unwrap().value);
    assert_eq!(calls.collect::<Vec<u64>>(), (30..40).collect::<Vec<u64>>());
}

#[test]
fn a_memory_server_that_stays_silent_is_not_waited_for() {
    let mut scene = Scene::new(GIVEN_UP, CallPlacement::Fixed(CallSite::Server));
    scene.daemons.stop();
    for _ in 0..10 {
        scene.caller.begin(scene.count, &1u64.to_le_bytes()).unwrap();
    }
    for _ in 0..10 {
        match scene.caller.wait(PATIENCE).expect("it ends").result {
            Err(CallError::Lost { error, may_have_run: true }) => {
                assert!(error.to_string().contains("silent for"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    // Whoever calls nevertheless is told again.
    let error = scene.caller.call(scene.count, &1u64.to_le_bytes()).unwrap_err();
    assert!(matches!(error, CallError::Lost { may_have_run: true, .. }), "{error}");
    scene.daemons.go_on();
    // All of it runs after all, once; what it answers is for nobody.
    assert_eq!(scene.caller.call(scene.count, &1u64.to_le_bytes()).unwrap().value, 11);
    assert_eq!((scene.caller.under_way(), scene.counted()), (0, 12));
}

/// Loops until its fuel is gone.
const LOOP: &str = "again:\nja again";

#[test]
fn a_memory_server_that_has_much_to_do_is_waited_for() {
    let daemons = Daemons::start_with(&["--workers", "1", "--calling-fuel", "100000000"]);
    let connect = |deadline: Duration| {
        let options = CallerOptions::default().with_placement(CallSite::Server);
        let mut caller = caller_within(deadline, &daemons.shm(), options);
        let options = FunctionOptions::default().with_fuel(100_000_000);
        let function = caller.register(&image(LOOP), options).unwrap();
        (caller, function)
    };
    let begin = |(caller, function): &mut (Caller, FunctionHandle)| {
        caller.begin(*function, &[]).unwrap();
        caller.flush();
    };
    let mut one = connect(PATIENCE);
    let began = Instant::now();
    begin(&mut one);
    one.0.wait(PATIENCE).expect("it ends").result.unwrap_err();
    // As many that it is the last one's turn twice as late as it gives up a server that hangs.
    let count = (GIVEN_UP.as_nanos() / began.elapsed().as_nanos()).clamp(2, 400);
    let mut others: Vec<_> = (0..count).map(|_| connect(PATIENCE)).collect();
    // Links have their turns in the order in which they came.
    let mut last = connect(GIVEN_UP / 2);
    others.iter_mut().for_each(begin);
    begin(&mut last);
    let result = last.0.wait(PATIENCE).expect("it ends").result;
    assert!(matches!(result, Err(CallError::Trapped { .. })), "{result:?}");
    drop(others);
}

#[test]
fn no_room_names_who_is_silent() {
    let mut scene = Scene::new(PATIENCE * 10, CallPlacement::Fixed(CallSite::Agent));
    assert!(scene.hang(16).is_empty());
    scene.caller = scene.caller.with_deadline(Duration::from_millis(20));
    let error = scene.caller.begin(scene.count, &1u64.to_le_bytes()).unwrap_err();
    let expected = NoRoomBecause::UnderWay { calls: 16, silent: Some(CallSite::Agent) };
    assert!(matches!(&error, CallError::NoRoom { why, .. } if *why == expected), "{error}");
    assert!(error.to_string().contains("the agent has some and says nothing"), "{error}");
    assert_eq!(scene.counted(), 0);
    drop(scene.daemons);
}
