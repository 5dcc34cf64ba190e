//! What clients may have read and written, and what not.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let unique = outboard_link::Identity::new(outboard_wire::Role::Tool, "").incarnation;
        let path = std::env::temp_dir().join(format!("outboard-data-{unique}"));
        std::fs::create_dir_all(path.join("inner")).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn nothing_leads_out_of_the_folder() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("inner/good"), "graph").unwrap();
    std::fs::write(folder.0.join("empty"), "").unwrap();
    symlink("/etc/passwd", folder.0.join("link")).unwrap();
    symlink("/etc", folder.0.join("linked")).unwrap();
    let data = DataDirectory::open(&folder.0).unwrap();
    assert_eq!(data.file("inner/good").unwrap().1, 5);
    for path in ["../x", "inner/../../x", "/etc/passwd", "link", "linked/passwd"] {
        assert!(matches!(data.file(path), Err(FileError::Outside(_))), "{path}");
    }
    assert!(matches!(data.file("nothing"), Err(FileError::Missing(_))));
    assert!(matches!(data.file("inner"), Err(FileError::NotAFile(_))));
    assert!(matches!(data.file("empty"), Err(FileError::Empty(_))));
    assert!(data.file("").is_err() && data.file("a\0b").is_err());
}

#[test]
fn a_file_fills_a_segment() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    std::fs::write(folder.0.join("big"), &bytes).unwrap();
    let (mut file, len) = DataDirectory::open(&folder.0).unwrap().file("big").unwrap();
    let segment = Segment::create(c"test", 4 << 20).unwrap();
    let first = 2_000_001;
    fill(&segment, &mut file, 0, first).unwrap();
    fill(&segment, &mut file, first, len - first).unwrap();
    assert_eq!(segment.window(0, bytes.len()).to_vec(), bytes);
}

fn segment(bytes: &[u8]) -> Segment {
    let segment = Segment::create(c"test", bytes.len().next_multiple_of(4096)).unwrap();
    segment.window_mut(0, bytes.len()).write(0, bytes);
    segment
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
    let folder = Folder::new();
    let path = folder.0.join("inner/web.bin");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let mut reader = File::open(&path).unwrap();
    let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i % 253) as u8).collect();
    let data = DataDirectory::open(&folder.0).unwrap();
    // What a process that was killed has left is no obstacle.
    let draft = format!(".web.bin.outboard-{}", std::process::id());
    std::fs::write(folder.0.join("inner").join(&draft), "half").unwrap();
    data.replace("inner/web.bin", &segment(&bytes), bytes.len() as u64).unwrap();
    assert!(std::fs::read(&path).unwrap() == bytes, "the new bytes, and none behind them");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let mut old = String::new();
    reader.read_to_string(&mut old).unwrap();
    assert_eq!(old, "old", "a reader goes on with the old file");
    assert_eq!(names_in(&folder.0.join("inner")), ["web.bin"], "no draft is left");
    std::fs::remove_file(&path).unwrap();
    data.replace("inner/web.bin", &segment(b"new"), 3).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    data.replace("top", &segment(b"top"), 3).unwrap();
    assert_eq!(std::fs::read(folder.0.join("top")).unwrap(), b"top");
}

#[test]
fn nothing_is_written_outside_the_folder() {
    let (folder, outside) = (Folder::new(), Folder::new());
    let secret = outside.0.join("secret");
    std::fs::write(&secret, "kept").unwrap();
    symlink(&secret, folder.0.join("link")).unwrap();
    symlink(&outside.0, folder.0.join("linked")).unwrap();
    let data = DataDirectory::open(&folder.0).unwrap();
    let name = outside.0.file_name().unwrap().to_str().unwrap();
    let absolute = secret.to_str().unwrap();
    let climbing = format!("../{name}/secret");
    for path in ["link", "linked/secret", "linked/new", &climbing, absolute, "..", "inner/..", "inner/../.."]
    {
        let refused = data.replace(path, &segment(b"spoiled"), 7);
        assert!(matches!(refused, Err(FileError::Outside(_))), "{path}: {refused:?}");
    }
    assert_eq!(names_in(&outside.0), ["inner", "secret"]);
    assert_eq!(std::fs::read(&secret).unwrap(), b"kept");
    assert_eq!(names_in(&folder.0), ["inner", "link", "linked"], "no draft is left");
    assert!(matches!(data.replace("inner", &segment(b"x"), 1), Err(FileError::NotAFile(_))));
    assert!(matches!(data.replace("nowhere/x", &segment(b"x"), 1), Err(FileError::Missing(_))));
    assert!(data.replace("", &segment(b"x"), 1).is_err() && data.replace("a\0b", &segment(b"x"), 1).is_err());
}

/// There no user makes files, not even root.
#[test]
fn a_folder_that_takes_no_files_is_named_read_only() {
    let data = DataDirectory::open(Path::new("/sys/kernel")).unwrap();
    let refused = data.replace("new-file", &segment(b"x"), 1).unwrap_err();
    assert!(matches!(refused, FileError::ReadOnly { .. }), "{refused}");
    assert_eq!(refused.failure(), ControlFailure::NotWritten);
    assert!(refused.to_string().contains("read-only"), "{refused}");
}

#[test]
fn a_file_has_one_name_however_it_is_spelled() {
    for spelling in ["sub/f", "./sub/f", "sub//f", "sub/./f", "sub/f/"] {
        assert_eq!(plain_path(spelling).unwrap(), "sub/f", "{spelling}");
    }
    for outside in ["/sub/f", "sub/../sub/f", "..", "../f"] {
        assert!(matches!(plain_path(outside), Err(FileError::Outside(_))), "{outside}");
    }
    for nothing in ["", ".", "./"] {
        assert!(matches!(plain_path(nothing), Err(FileError::NotAFile(_))), "{nothing}");
    }
}
