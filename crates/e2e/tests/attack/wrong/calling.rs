//! Functions that travel: code, numbers, fuel and reports that were made up.

use outboard_calling::FunctionImage;
use outboard_e2e::Random;
use outboard_wire::calling::{
    ASK, Allowed, CALL, CODE, CONTINUE, Call, CallerId, CodePart, Continue, FunctionName, LOAD, Moving,
    OBSERVED, OPEN, Observed, Open, RECALL, REGISTER, REGISTERED, RESUME, Recall, Register, RegisterVerdict,
    Registered, Seen, SiteLoad, SlotQuestion,
};
use outboard_wire::{FrameHead, Incarnation, RegionDescriptor, Rights, Role};

use super::Episode;
use super::control::tenant;
use super::forge::{edge, mostly_below, perhaps, rights, some_bytes};
use super::raw::{Hung, Raw};
use crate::scene::Scene;

/// How long the code of a function travels at once.
const PART: usize = 4096;

fn server_of(descriptor: &RegionDescriptor) -> Incarnation {
    descriptor.extents.first().map_or(Incarnation(0), |extent| extent.incarnation)
}

fn caller(random: &mut Random) -> CallerId {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&random.next().to_le_bytes());
    CallerId(name)
}

/// A link that has opened for calls on a region of its own, at the server or at the agent. The region's owner stays.
fn open(scene: &Scene, random: &mut Random) -> Result<(Raw, Raw, RegionDescriptor), Hung> {
    let (owner, descriptor) = tenant(scene, random)?;
    let mut link = Raw::connect(scene.any(random), Role::Application, random)?;
    let said = Open { caller: caller(random), server: server_of(&descriptor) };
    link.frame(FrameHead::new(OPEN), &said.encode())?;
    Ok((link, owner, descriptor))
}

/// Registers a function under this number, in order, and waits until it can be called.
fn register(link: &mut Raw, handle: u32, text: &str, descriptor: &RegionDescriptor) -> Episode {
    let image = FunctionImage::from_text(text, "main").map_err(|_| Hung)?;
    let grant = descriptor.grant;
    let (region, generation, key, size) = (grant.region, grant.generation, grant.key, grant.size);
    let regions = vec![Allowed { region, generation, key, rights: Rights::ALL, size }];
    let register = Register { handle, reply_max: 64, fuel: 100_000, name: image.name(), regions };
    let mut bytes = Vec::new();
    register.encode(&mut bytes);
    for _ in 0..500 {
        link.frame_patiently(FrameHead::new(REGISTER), &bytes)?;
        let (_, payload) = link.await_frame(|head| head.kind == REGISTERED)?;
        match Registered::decode(&payload).map_err(|_| Hung)?.verdict {
            RegisterVerdict::Ready => return Ok(()),
            RegisterVerdict::NeedsCode => {
                let total = image.bytes().len() as u32;
                for (index, part) in image.bytes().chunks(PART).enumerate() {
                    let said = CodePart { name: image.name(), total, offset: (index * PART) as u32 };
                    link.frame_patiently(FrameHead::new(CODE), &[&said.encode()[..], part].concat())?;
                }
            }
            RegisterVerdict::Preparing => std::thread::park_timeout(std::time::Duration::from_millis(2)),
            RegisterVerdict::Refused(_) => return Err(Hung),
        }
    }
    Err(Hung)
}

/// A function that asks a helper for what its argument says.
const ASKS: [&str; 8] = [
    "ldxdw r4, [r1+0]\nmov r1, 0\nmov r2, 0\nmov r3, r10\nadd r3, -8\ncall region_read\nmov r0, 0\nexit",
    "ldxdw r3, [r1+0]\nmov r1, 0\nmov r2, 0\nmov r4, 0\ncall region_fetch\nmov r0, 0\nexit",
    "ldxdw r2, [r1+0]\nmov r1, r10\nadd r1, -8\ncall reply\nmov r0, 0\nexit",
    "ldxdw r4, [r1+0]\nmov r1, 0\nmov r2, 0\nmov r3, r10\nadd r3, -8\ncall region_write\nmov r0, 0\nexit",
    "ldxdw r2, [r1+0]\nmov r1, r10\nadd r1, -8\ncall outboard_log\nmov r0, 0\nexit",
    "ldxdw r3, [r1+0]\nmov r1, 0\nmov r2, r10\nadd r2, -8\ncall forward\nmov r0, 0\nexit",
    "ldxdw r2, [r1+0]\nmov r1, 0\nmov r3, 1\ncall region_fetch_add\nmov r0, 0\nexit",
    "ldxdw r4, [r1+0]\nmov r1, 1\nmov r2, 0\nmov r3, r10\nadd r3, -8\ncall forward_to\nmov r0, 0\nexit",
];

fn call(link: &mut Raw, number: u64, handle: u32, arguments: &[u8]) -> Episode {
    let call = Call { call: number, handle, patience_us: 0 };
    link.frame_patiently(FrameHead::new(CALL), &[&call.encode()[..], arguments].concat())
}

/// What a helper is asked for costs what was asked, not what was done.
pub(super) fn functions(scene: &Scene, random: &mut Random) -> Episode {
    let (mut link, _owner, descriptor) = open(scene, random)?;
    for (handle, text) in (0..).zip(ASKS) {
        if random.once_in(2) {
            continue;
        }
        register(&mut link, handle, text, &descriptor)?;
        for number in 0..6 {
            let asked = if random.once_in(2) { u64::MAX } else { edge(random) };
            call(&mut link, u64::from(handle) * 100 + number, handle, &asked.to_le_bytes())?;
        }
        link.take();
    }
    std::thread::park_timeout(std::time::Duration::from_millis(20));
    Ok(())
}

fn any_register(name: FunctionName, descriptor: &RegionDescriptor, random: &mut Random) -> Register {
    let grant = descriptor.grant;
    let allowed = Allowed {
        region: grant.region,
        generation: grant.generation,
        key: grant.key,
        rights: rights(random),
        size: edge(random),
    };
    Register {
        handle: mostly_below(4, random) as u32,
        reply_max: edge(random) as u32,
        fuel: edge(random),
        name,
        regions: vec![allowed; random.below(17) as usize],
    }
}

/// Registrations and code that do not belong together, and calls of what was never registered.
pub(super) fn registrations(scene: &Scene, random: &mut Random) -> Episode {
    let (mut link, _owner, descriptor) = open(scene, random)?;
    for number in 0..100 {
        let mut name = FunctionName([0; 32]);
        name.0[..8].copy_from_slice(&random.below(3).to_le_bytes());
        let (kind, payload) = match random.below(6) {
            0 => {
                let mut bytes = Vec::new();
                any_register(name, &descriptor, random).encode(&mut bytes);
                (REGISTER, bytes)
            }
            1 => {
                let (total, offset) = (mostly_below(1 << 20, random) as u32, mostly_below(64, random) as u32);
                let part = CodePart { name, total, offset };
                (CODE, [&part.encode()[..], &some_bytes(2000, random)].concat())
            }
            2 => (OPEN, Open { caller: caller(random), server: Incarnation(edge(random)) }.encode().to_vec()),
            3 => {
                let calls = (0..random.below(256)).map(|_| mostly_below(number + 1, random)).collect();
                (RECALL, Recall { calls }.encode())
            }
            _ => {
                let number = if random.once_in(4) { edge(random) } else { number };
                let call = Call {
                    call: number,
                    handle: mostly_below(4, random) as u32,
                    patience_us: edge(random) as u32,
                };
                (CALL, [&call.encode()[..], &some_bytes(2000, random)].concat())
            }
        };
        link.frame_patiently(FrameHead::new(kind), &perhaps(payload, random))?;
        link.take();
    }
    Ok(())
}

/// Calls in the middle of their run: what they remember was made up.
pub(super) fn resumed(scene: &Scene, random: &mut Random) -> Episode {
    let (mut link, _owner, descriptor) = open(scene, random)?;
    register(&mut link, 0, ASKS[0], &descriptor)?;
    for number in 0..60 {
        let state = some_bytes(4000, random);
        let reply = some_bytes(100, random);
        let (call, handle) = (mostly_below(number + 1, random), mostly_below(2, random) as u32);
        let payload = if random.once_in(2) {
            let (patience_us, spent) = (edge(random) as u32, edge(random));
            let mut bytes = Vec::new();
            let moving = Moving { call, handle, patience_us, spent, reply: &reply, state: &state };
            moving.encode(&mut bytes);
            (RESUME, bytes)
        } else {
            let call = Call { call, handle, patience_us: 0 };
            let goes_on = Continue { call, fuel: edge(random) };
            (CONTINUE, [&goes_on.encode()[..], &reply].concat())
        };
        link.frame_patiently(FrameHead::new(payload.0), &perhaps(payload.1, random))?;
        link.take();
    }
    Ok(())
}

/// Reports of how busy everybody is.
pub(super) fn lies(scene: &Scene, random: &mut Random) -> Episode {
    let role = if random.once_in(2) { Role::Agent } else { Role::Application };
    let mut link = Raw::connect(scene.memory(random), role, random)?;
    link.frame(FrameHead::new(ASK), &SlotQuestion { epoch: edge(random) }.encode())?;
    for _ in 0..200 {
        let mut seen = || Seen {
            is_usable: random.once_in(2),
            calls: edge(random) as u32,
            round_trips_ns: edge(random),
            oldest_ns: edge(random),
            left: edge(random) as u32,
            left_ns: edge(random),
        };
        let observed = Observed { sites: [seen(), seen(), seen()] };
        let load = SiteLoad {
            span_ns: edge(random),
            workers: edge(random) as u32,
            calls: edge(random) as u32,
            queueing_ns: edge(random),
            busy_ns: edge(random),
            service_ns: edge(random),
            oldest_ns: edge(random),
        };
        let (kind, payload) = match role {
            Role::Agent => (LOAD, load.encode().to_vec()),
            _ => (OBSERVED, observed.encode().to_vec()),
        };
        link.frame_patiently(FrameHead::new(kind), &payload)?;
        if random.once_in(16) {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Functions that use all of their fuel, by several callers who take no answer.
pub(super) fn endless(scene: &Scene, random: &mut Random) -> Episode {
    let mut links = Vec::new();
    for _ in 0..3 {
        let (mut link, owner, descriptor) = open(scene, random)?;
        register(&mut link, 0, "again:\nja again", &descriptor)?;
        for number in 0..100 {
            let call = Call { call: number, handle: 0, patience_us: 0 };
            if !link.frame(FrameHead::new(CALL), &call.encode())? {
                break;
            }
        }
        links.push((link, owner));
    }
    std::thread::park_timeout(std::time::Duration::from_millis(random.below(100)));
    Ok(())
}
