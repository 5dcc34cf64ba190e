//! A function that asks for more bytes than there are costs others nothing.

use outboard::{Address, Caller, FunctionOptions, Rights};

use crate::world::{COUNT, Daemons, caller, caller_by, image, memory};

/// By each helper, functions that ask for 2^64 - 1 bytes.
const GREEDY: [&str; 3] = [
    "mov r1, 0\nmov r2, 0\nmov r3, r10\nadd r3, -8\nldxdw r4, [r6+0]\ncall region_read\nexit",
    "mov r1, 0\nmov r2, 0\nldxdw r3, [r6+0]\nmov r4, 0\ncall region_fetch\nmov r0, 0\nexit",
    "mov r1, r10\nadd r1, -8\nstxdw [r10-8], r1\nldxdw r2, [r6+0]\ncall reply\nexit",
];

fn is_served(daemons: Daemons, address: &Address, connect: impl Fn() -> Caller) {
    let mut memory = memory(address);
    let region = memory.reserve(4096, None).unwrap();
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    // As many as there are workers and more, so that each of them is asked.
    let mut callers: Vec<Caller> = (0..6).map(|_| connect()).collect();
    for text in GREEDY {
        for caller in &mut callers {
            let greedy = caller.register(&image(&format!("mov r6, r1\n{text}")), options.clone()).unwrap();
            for _ in 0..3 {
                caller.call(greedy, &u64::MAX.to_le_bytes()).unwrap_err();
            }
        }
    }
    for caller in &mut callers {
        let count = caller.register(&image(COUNT), options.clone()).unwrap();
        caller.call(count, &1u64.to_le_bytes()).unwrap();
    }
    drop(callers);
    assert_eq!(daemons.ends_when_asked(), Some(0));
}

#[test]
fn at_a_server() {
    let daemons = Daemons::start();
    let address = daemons.shm();
    is_served(daemons, &address, || caller(&address));
}

#[test]
fn at_an_agent() {
    let daemons = Daemons::start();
    let (address, agent) = (daemons.shm(), daemons.agent(&daemons.shm()));
    let at = agent.shm();
    is_served(agent, &address, || caller_by(&address, &at));
}
