//! The program that is to run: whether a library can be loaded into it is seen in its file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ReadCache};

/// The machine that this program was built for.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };
/// Who runs a file that has another owner's rights.
const SET_ID: u32 = 0o6000;
/// How often a script's interpreter is a script.
const SCRIPTS_MAX: usize = 4;

/// A program into which a library can be loaded.
pub(super) struct Program {
    path: PathBuf,
}

impl Program {
    /// Finds it as a shell does, and refuses what cannot have far memory, with the reason.
    pub(super) fn find(name: &OsStr) -> Result<Self> {
        let path = find(name).with_context(|| format!("there is no program {}", name.to_string_lossy()))?;
        check(&path, SCRIPTS_MAX)?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn find(name: &OsStr) -> Option<PathBuf> {
    let can_run = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| can_run(path));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| can_run(path))
}

fn check(path: &Path, scripts: usize) -> Result<()> {
    let shown = path.display();
    let mut file =
        File::open(path).with_context(|| format!("cannot read {shown}, so it is not known what it is"))?;
    let about = file.metadata().with_context(|| format!("cannot look at {shown}"))?;
    if about.mode() & SET_ID != 0 && about.uid() != rustix::process::getuid().as_raw() {
        bail!(
            "{shown} runs with its owner's rights (setuid), and the system loads no library into such a program"
        );
    }
    if has_capabilities(path) {
        bail!("{shown} has capabilities of its own, and the system loads no library into such a program");
    }
    let mut head = [0; 256];
    let len = file.read(&mut head).with_context(|| format!("cannot read {shown}"))?;
    match &head[..len] {
        [b'#', b'!', line @ ..] => match interpreter(line) {
            Some(interpreter) if scripts > 0 => {
                check(&interpreter, scripts - 1).with_context(|| format!("{shown} is a script"))
            }
            _ => bail!("{shown} is a script that does not say by what it is run"),
        },
        [0x7f, b'E', b'L', b'F', ..] => check_elf(path, file),
        _ => bail!("{shown} is neither a program of this system nor a script"),
    }
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    rustix::fs::getxattr(path, "security.capability", &mut value).is_ok_and(|len| len > 0)
}

/// The interpreter that the first line of a script names; of `env` the program that it starts.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    let text = std::str::from_utf8(&line[..end]).ok()?;
    let mut words = text.split_whitespace();
    let first = words.next()?;
    if first.ends_with("/env") {
        return words
            .find(|word| !word.starts_with('-') && !word.contains('='))
            .and_then(|name| find(name.as_ref()));
    }
    Some(PathBuf::from(first))
}

fn check_elf(path: &Path, file: File) -> Result<()> {
    let shown = path.display();
    let data = ReadCache::new(file);
    let wrong = || format!("{shown} is no program of 64 bits for this machine");
    let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&data).with_context(wrong)?;
    let endian = elf.endian();
    if elf.elf_header().e_machine(endian) != MACHINE {
        bail!("{}", wrong());
    }
    if elf.sections().any(|section| section.name().is_ok_and(|name| name == ".go.buildinfo")) {
        bail!(
            "{shown} was made by Go, whose programs ask the kernel for memory themselves: no library stands in between"
        );
    }
    let linker = elf.elf_program_headers().iter().find(|header| header.p_type(endian) == PT_INTERP);
    let Some(linker) = linker else {
        bail!("{shown} is linked statically: no library can be loaded into it; link it dynamically");
    };
    let linker = linker.data(endian, &data).unwrap_or_default();
    let linker = String::from_utf8_lossy(linker).trim_end_matches('\0').to_owned();
    if linker.contains("ld-musl") {
        bail!("{shown} uses the C library musl ({linker}), and the library is made for glibc");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        assert_eq!(interpreter(b"/bin/sh\nls"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(interpreter(b" /usr/bin/perl -w\n"), Some(PathBuf::from("/usr/bin/perl")));
        assert_eq!(interpreter(b"/usr/bin/env -S A=1 sh\n"), find("sh".as_ref()));
        assert_eq!(interpreter(b"\n"), None);
    }

    #[test]
    fn what_cannot_have_a_library_loaded_is_refused_with_the_reason() {
        let folder = std::env::temp_dir().join(format!("outboard-far-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        let refused = |content: &[u8]| {
            std::fs::write(&file, content).unwrap();
            format!("{:#}", check(&file, SCRIPTS_MAX).unwrap_err())
        };
        assert!(refused(b"hello").contains("neither a program"));
        assert!(refused(b"\x7fELF\x01\x01\x01").contains("no program of 64 bits"));
        assert!(refused(b"#!\n").contains("does not say"));
        check(Path::new("/bin/sh"), SCRIPTS_MAX).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
