//! A server begins with what the last one has left.

use std::path::{Path, PathBuf};

use outboard_keep::{KeptHolder, append, header, read};
use outboard_wire::control::RegionSharing;
use outboard_wire::{Generation, Incarnation, RegionKey};

use super::*;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("outboard-keep-{name}-{}", std::process::id()));
        // One of an earlier process that had our number.
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    fn begin(&self, life: u64) -> Result<(Arc<Keep>, KeptRegions), KeepError> {
        Keep::begin(&self.0, Incarnation(life), KeepSync::Never)
    }

    /// Writes the journal as if the last server had run before the machine was started.
    fn of_an_earlier_boot(&self) {
        let mut state = read(&std::fs::read(self.journal()).unwrap()).unwrap().state;
        state.life.as_mut().unwrap().boot = [7; 16];
        let mut bytes = header().to_vec();
        let records = state.records();
        records.iter().enumerate().for_each(|(number, record)| append(number as u32, record, &mut bytes));
        // In place: a new file would be another place.
        let file = std::fs::OpenOptions::new().write(true).open(self.journal()).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn holder(process: u64) -> KeptHolder {
    let sharing = RegionSharing::Leased;
    KeptHolder { process: Incarnation(process), pid: 1, mapped_since: 0, writes: true, sharing, times: 1 }
}

fn region(number: u64) -> KeptRegion {
    KeptRegion {
        region: RegionId(number),
        generation: Generation(5),
        size: 4000,
        memory: 4096,
        chunk_log2: 16,
        is_sparse: false,
        name: format!("region {number}"),
        owner: Some(Incarnation(1)),
        keys: std::array::from_fn(|key| RegionKey([key as u8 + 1; 16])),
        epoch: 3,
        holders: vec![holder(1)],
    }
}

fn reserve(keep: &Keep, number: u64) -> Arc<Segment> {
    let memory = Arc::new(keep.create(RegionId(number), 4096, false).unwrap());
    keep.watch(RegionId(number), &memory);
    keep.note(&JournalRecord::Region(Box::new(region(number)))).unwrap();
    memory
}

#[test]
fn a_server_that_was_killed_goes_on_with_its_store() {
    let folder = Folder::new("killed");
    let (keep, kept) = folder.begin(1).unwrap();
    assert!(kept.regions.is_empty() && kept.is_other.is_none() && kept.store != StoreId::NONE);
    let memory = reserve(&keep, 1);
    memory.window_mut(0, 4096).write(10, b"bytes");
    let freed = reserve(&keep, 2);
    keep.note(&JournalRecord::Freed { region: RegionId(2) }).unwrap();
    keep.remove(RegionId(2));
    keep.note(&JournalRecord::Epoch { region: RegionId(1), epoch: 9 }).unwrap();
    let half_made = keep.create(RegionId(3), 4096, true).unwrap();
    assert!(matches!(folder.begin(2), Err(KeepError::InUse { .. })));
    drop((keep, memory, freed, half_made));

    let (keep, again) = folder.begin(2).unwrap();
    assert_eq!((again.store, again.is_other, again.last), (kept.store, None, RegionId(3)));
    let [(found, memory)] = &again.regions[..] else { panic!("one region") };
    assert_eq!(*found, KeptRegion { epoch: 9, ..region(1) });
    assert_eq!(&memory.window(0, 4096).array::<5>(10), b"bytes");
    assert!(!folder.0.join("region-3").exists(), "what was never told of is gone");
    drop(keep);
}

#[test]
fn after_a_crash_of_the_machine_no_client_goes_on_and_what_is_on_the_disk_is_there() {
    let folder = Folder::new("crash");
    let (keep, kept) = folder.begin(1).unwrap();
    drop((reserve(&keep, 1), reserve(&keep, 2), keep));
    folder.of_an_earlier_boot();
    std::fs::remove_file(folder.0.join("region-2")).unwrap();
    let (keep, again) = folder.begin(2).unwrap();
    assert!(again.is_other.is_some() && again.store != kept.store);
    let [(found, _)] = &again.regions[..] else { panic!("one region") };
    let former = region(1);
    assert!(found.holders.is_empty() && found.owner.is_none() && found.epoch > former.epoch);
    assert!(found.generation != former.generation && found.keys.iter().all(|key| !former.keys.contains(key)));
    assert_eq!((&found.name, found.size), (&former.name, former.size));
    drop(keep);
    // The next start goes on with that.
    let (_keep, third) = folder.begin(3).unwrap();
    assert_eq!((third.store, third.is_other), (again.store, None));
}

#[test]
fn a_server_that_has_ended_goes_on_after_the_machine_was_started_again() {
    let folder = Folder::new("ended");
    let (keep, kept) = folder.begin(1).unwrap();
    let memory = reserve(&keep, 1);
    keep.end();
    drop((keep, memory));
    folder.of_an_earlier_boot();
    let (keep, again) = folder.begin(2).unwrap();
    assert_eq!((again.store, again.is_other), (kept.store, None));
    assert_eq!(again.regions[0].0, region(1));
    drop(keep);
    // It has not ended this time.
    folder.of_an_earlier_boot();
    assert!(folder.begin(3).unwrap().1.is_other.is_some());
}

#[test]
fn a_copy_is_another_store() {
    let folder = Folder::new("copied");
    let (keep, kept) = folder.begin(1).unwrap();
    drop((reserve(&keep, 1), keep));
    let bytes = std::fs::read(folder.journal()).unwrap();
    std::fs::remove_file(folder.journal()).unwrap();
    // It may get the number of the file that is gone, but it was made later.
    std::fs::write(folder.journal(), bytes).unwrap();
    let (_keep, again) = folder.begin(2).unwrap();
    assert!(again.is_other.is_some() && again.store != kept.store && again.regions.len() == 1);
}

#[test]
fn a_journal_does_not_grow_for_ever() {
    let folder = Folder::new("long");
    let (keep, kept) = folder.begin(1).unwrap();
    let memory = reserve(&keep, 1);
    for epoch in 4..40_000 {
        keep.note(&JournalRecord::Held { region: RegionId(1), epoch, holders: vec![holder(epoch)] }).unwrap();
    }
    assert!(std::fs::metadata(folder.journal()).unwrap().len() <= JOURNAL_LONG + JOURNAL_ROOM);
    drop((keep, memory));
    let (_keep, again) = folder.begin(2).unwrap();
    assert_eq!((again.store, again.is_other), (kept.store, None));
    let found = &again.regions[0].0;
    assert_eq!((found.epoch, &found.holders), (39_999, &vec![holder(39_999)]));
}

#[test]
fn a_folder_that_is_something_else_is_refused() {
    let folder = Folder::new("wrong");
    std::fs::create_dir(&folder.0).unwrap();
    std::fs::set_permissions(&folder.0, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(folder.0.join("notes.txt"), "mine").unwrap();
    assert!(matches!(folder.begin(1), Err(KeepError::NotEmpty { .. })));
    std::fs::write(folder.journal(), "not a journal of ours").unwrap();
    assert!(matches!(folder.begin(1), Err(KeepError::Journal { .. })));
    let file = Path::new(&folder.0).join("notes.txt");
    assert!(matches!(Keep::begin(&file, Incarnation(1), KeepSync::Never), Err(KeepError::System { .. })));
}
