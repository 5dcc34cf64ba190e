//! What clients may have read and written, and what not.

use std::os::unix::fs::symlink;
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
    let (file, len) = DataDirectory::open(&folder.0).unwrap().file("big").unwrap();
    let segment = Segment::create(c"test", 4 << 20).unwrap();
    fill(&segment, file, len).unwrap();
    assert_eq!(segment.window(0, bytes.len()).to_vec(), bytes);
}
