//! What far memory takes down of the chunks that are touched.

use std::hint::black_box;

use outboard::{FaultAnswer, Path, RegionOptions};
use outboard_e2e::{Daemon, Place};
use outboard_paging::application::Recording;

use super::{connect, not_known_to_be_zero, options};

const CHUNK: usize = 4096;
const CHUNKS: usize = 97;

#[test]
fn chunks_that_are_touched_are_recorded_in_order() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    for (number, faults) in [FaultAnswer::Threads, FaultAnswer::Signal].into_iter().enumerate() {
        let folder = place.folder("recordings");
        let file = folder.join(format!("touches-{number}"));
        let mut options = options(daemon.local(), CHUNK, 8 * CHUNK);
        (options.threads, options.ahead, options.faults) = (Some(1), 0, faults);
        options.record = Some(file.clone());
        let memory = connect(&options);
        let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
        let array = not_known_to_be_zero(&memory, &format!("steps-{number}"), CHUNKS * CHUNK, &region);
        let steps: Vec<u32> = (0..CHUNKS as u32).map(|step| step * 31 % CHUNKS as u32).collect();
        for step in &steps {
            black_box(array[*step as usize * CHUNK]);
        }
        assert!(!file.exists(), "it is written when far memory ends");
        drop((array, memory));
        let bytes = std::fs::read(&file).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        let recording = Recording::decode(&bytes).unwrap();
        // The one before only reserved the memory.
        let region = recording.regions.last().unwrap();
        assert_eq!((region.class.bytes(), region.chunks), (CHUNK, CHUNKS as u32));
        let touched = recording.touches.iter().filter(|key| key.region == region.number);
        let mut touched: Vec<u32> = touched.map(|key| key.index).collect();
        touched.dedup();
        assert_eq!(touched, steps, "{faults:?}");
    }
    daemon.end();
    place.assert_nothing_left();
}
