//! Files that a server loads, changed through pointers and written back.

use outboard::{FarMemory, Path, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Place};

use super::{connect, options};

const CHUNK: usize = 4096;
/// Not a whole number of chunks, nor of pages.
const WORDS: usize = 20_001;

fn region() -> RegionOptions {
    RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() }
}

#[test]
fn a_file_is_opened_changed_synced_and_opened_again() {
    let place = Place::new();
    let folder = place.folder("data");
    let file = folder.join("ranks.bin");
    let before: Vec<u64> = (0..WORDS as u64).map(|word| word * word).collect();
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    std::fs::write(&file, bytes(&before)).unwrap();
    let data = ["--data-dir", folder.to_str().unwrap()];
    let daemon = Daemon::memory(&place, &place.socket(), &data);
    for (turn, at) in (0..).zip([daemon.local(), daemon.remote()]) {
        let memory: FarMemory = connect(&options(at, CHUNK, 16 * CHUNK));
        let mut expected: Vec<u64> = {
            let slice = memory.open_file::<u64>("ranks.bin", &region()).unwrap();
            assert_eq!(slice.len(), WORDS);
            slice.to_vec()
        };
        assert!(bytes(&expected) == std::fs::read(&file).unwrap());
        let mut words = memory.open_file_writable::<u64>("ranks.bin", &region()).unwrap();
        for word in (0..WORDS).step_by(777).chain([WORDS - 1]) {
            words[word] = 7 * word as u64 + turn;
            expected[word] = 7 * word as u64 + turn;
        }
        assert!(words[..] == expected[..]);
        assert!(std::fs::read(&file).unwrap() != bytes(&expected), "not before it is asked for");
        assert_eq!(words.sync(PATIENCE).unwrap(), 8 * WORDS as u64);
        assert!(std::fs::read(&file).unwrap() == bytes(&expected));
        // What is dropped reaches the server, and the file only if it is asked for.
        words[5] = 55;
        drop(words);
        assert!(std::fs::read(&file).unwrap() == bytes(&expected));
        let words = memory.open_file_writable::<u64>("ranks.bin", &region()).unwrap();
        assert_eq!(words[5], 55);
        words.free().unwrap();
        // Freed, it is loaded anew.
        let slice = memory.open_file::<u64>("ranks.bin", &region()).unwrap();
        assert!(slice[..] == expected[..]);
    }
    daemon.end();
    std::fs::remove_dir_all(&folder).unwrap();
    place.assert_nothing_left();
}

#[test]
fn a_region_with_a_name_outlives_those_who_use_it() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let named = RegionOptions { name: Some("table".to_owned()), ..region() };
    {
        let memory = connect(&options(daemon.remote(), CHUNK, 16 * CHUNK));
        let mut table = memory.allocate_with::<u32>(100_000, &named).unwrap();
        (0..100_000).for_each(|at| table[at] = 3 * at as u32);
    }
    let memory = connect(&options(daemon.local(), CHUNK, 16 * CHUNK));
    let table = memory.open::<u32>("table", &region()).unwrap();
    assert_eq!(table.len(), 100_000, "as many as there were, and no more");
    assert!((0..100_000).all(|at| table[at] == 3 * at as u32));
    drop(table);
    let mut table = memory.open_writable::<u32>("table", &region()).unwrap();
    table[99_999] = 1;
    let table = table.freeze().unwrap();
    assert_eq!((table[99_998], table[99_999]), (3 * 99_998, 1));
    drop(table);
    memory.open_writable::<u32>("table", &region()).unwrap().free().unwrap();
    assert!(memory.open::<u32>("table", &region()).is_err());
    daemon.end();
    place.assert_nothing_left();
}
