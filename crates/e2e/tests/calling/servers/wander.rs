//! The same while slots move at both servers.

use std::time::Instant;

use outboard::{Address, Rights};
use outboard_calling::{
    Begin, CallBeginError, CallPlacement, Dispatcher, FunctionNeeds, Leaving, SLOTS, SiteLink, SlotTable,
};
use outboard_driver::calling::{CallerThread, draw_caller};
use outboard_link::shm::ShmLink;
use outboard_link::{Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::SlotSites;

use super::{CHASE, Place, list, values};
use crate::moving::{allowed, config, shm_link, tcp_link};
use crate::world::image;
use outboard_e2e::PATIENCE;

/// How many calls a site answers before slots go on to the next.
const STAY: u64 = 10;

/// A caller at one of the servers, whose slots move.
struct MovingCaller<L> {
    thread: CallerThread<L, ShmLink>,
    table: SlotTable,
    to: Site,
    step: usize,
    answered_before: u64,
}

impl<L: Link + RemoteMemory> MovingCaller<L> {
    fn new(link: L, agent: &Address, place: &Place, first_id: u64) -> Self {
        let caller = draw_caller();
        let agent = SiteLink::new(shm_link(agent), caller, link.peer().incarnation());
        let dispatcher = Dispatcher::new(link, Some(agent), caller, config(64, CallPlacement::Steered));
        let mut thread = CallerThread::new(dispatcher.with_first_id(first_id));
        let regions = vec![allowed(&place.region, Rights::ALL)];
        let wanted = FunctionNeeds { regions, fuel: 100_000, reply_max: 64 };
        assert_eq!(thread.register(&image(CHASE), wanted, PATIENCE).unwrap(), 0);
        // What the memory server would say itself is older.
        let table = SlotTable::from_wire(&SlotSites { epoch: 1 << 20, sites: [Site::Server; SLOTS] });
        thread.dispatcher.adopt(table);
        Self { thread, table, to: Site::Server, step: 0, answered_before: 0 }
    }

    /// Moves its slots when some calls have ended where they are.
    fn wander(&mut self) {
        let answered = self.thread.dispatcher.sites()[self.to as usize].answered;
        if answered >= self.answered_before + STAY {
            self.step += 1;
            self.to = [Site::Application, Site::Agent, Site::Server, Site::Agent][self.step % 4];
            self.answered_before = self.thread.dispatcher.sites()[self.to as usize].answered;
            self.table.assign(0..=(SLOTS - 1) as u8, self.to);
            self.thread.dispatcher.adopt(self.table);
        }
    }

    fn take_over(&mut self, leaving: Leaving, waiting: &mut Vec<Leaving>) {
        match self.thread.take_over(leaving, None) {
            Ok(()) => {}
            Err((leaving, CallBeginError::Full(_))) => waiting.push(leaving),
            Err((_, error)) => panic!("{error:?}"),
        }
    }
}

#[test]
fn every_part_runs_once_while_slots_move_at_both() {
    const CALLS: u64 = 1000;
    let mut places = [Place::new(), Place::new()];
    list(&mut places, 6);
    let agents = places.each_ref().map(|place| place.daemons.agent(&place.daemons.tcp()));
    let mut here = MovingCaller::new(tcp_link(&places[0].daemons.tcp()), &agents[0].shm(), &places[0], 0);
    let mut there =
        MovingCaller::new(shm_link(&places[1].daemons.shm()), &agents[1].shm(), &places[1], 1 << 56);
    let (mut begun, mut ended, mut waiting) = (0, 0, Vec::new());
    let until = Instant::now() + PATIENCE;
    while ended < CALLS {
        assert!(Instant::now() < until, "{ended} have ended: {:?}", here.thread.dispatcher.sites());
        for _ in 0..16 {
            let begin = Begin { handle: 0, slot: begun as u8, arguments: &[0; 8], patience: None };
            if begun < CALLS && waiting.is_empty() && here.thread.begin(&begin).is_ok() {
                begun += 1;
            }
        }
        let mut tell = |_, result: Result<(u64, &[u8]), _>| {
            assert_eq!(result.unwrap(), (5 * 24, values(6).as_slice()));
            ended += 1;
        };
        here.thread.turn(&mut tell);
        there.thread.turn(&mut tell);
        here.wander();
        there.wander();
        let mut leaving = std::mem::take(&mut waiting);
        leaving.extend(std::iter::from_fn(|| here.thread.dispatcher.next_leaving()));
        leaving.extend(std::iter::from_fn(|| there.thread.dispatcher.next_leaving()));
        for leaving in leaving {
            match leaving.server {
                0 => here.take_over(leaving, &mut waiting),
                _ => there.take_over(leaving, &mut waiting),
            }
        }
    }
    for (answered, moved) in [
        (here.thread.dispatcher.sites().map(|site| site.answered), here.thread.dispatcher.moved_total()),
        (there.thread.dispatcher.sites().map(|site| site.answered), there.thread.dispatcher.moved_total()),
    ] {
        assert!(answered.iter().all(|count| *count > 0), "{answered:?}, {moved} moved");
    }
    assert_eq!([places[0].visits(), places[1].visits()], [3 * CALLS, 3 * CALLS]);
    here.thread.dispatcher.close();
    there.thread.dispatcher.close();
}
