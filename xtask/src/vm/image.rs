//! What the guest boots: a kernel from Debian, and a small file system in memory.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::process;

const INIT: &str = include_str!("init.sh");

/// The kernel's modules that soft-RoCE and its interfaces need.
const MODULES: &[&str] = &["rdma_rxe", "ib_uverbs", "rdma_ucm", "crc32_generic", "crc32_pclmul", "veth"];
/// Libraries that are loaded by name, and not found by asking a program for what it needs.
const LIBRARIES: &[&str] = &["libfabric.so.1", "libibverbs.so.1", "librdmacm.so.1", "libgcc_s.so.1"];
const LIBRARY_FOLDER: &str = "/usr/lib/x86_64-linux-gnu";
/// What an xz archive begins with.
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";

/// A kernel and the part of the file system that never changes, made once.
pub(super) struct Base {
    pub(super) kernel: PathBuf,
    archive: PathBuf,
}

impl Base {
    /// Takes what lies in `folder`, or makes it.
    pub(super) fn prepare(folder: &Path) -> Result<Self> {
        let base = Self { kernel: folder.join("vmlinux"), archive: folder.join("base.cpio") };
        if base.archive.is_file() {
            return Ok(base);
        }
        println!("making the guest's kernel and file system in {}", folder.display());
        let unpacked = folder.join("kernel");
        let release = unpack_kernel(folder, &unpacked)?;
        let compressed = fs::read(unpacked.join(format!("boot/vmlinuz-{release}")))?;
        extract(&compressed, &base.kernel)?;
        let root = folder.join("root");
        fresh(&root)?;
        fill(&root, &unpacked, &release)?;
        // The name of the whole comes last: what was cut short is made again.
        let draft = folder.join("base.draft");
        archive(&root, &draft)?;
        fs::rename(&draft, &base.archive)?;
        fs::remove_dir_all(&unpacked)?;
        fs::remove_dir_all(&root)?;
        Ok(base)
    }

    /// The file system with each of these files at its place, and the command that is run.
    pub(super) fn with_programs(
        &self,
        folder: &Path,
        files: &[(PathBuf, PathBuf)],
        command: &str,
    ) -> Result<PathBuf> {
        let root = folder.join("overlay");
        fresh(&root)?;
        skeleton(&root)?;
        for (program, place) in files {
            let place = inside(&root, place);
            copy(program, &place)?;
            put_needed(&root, program)?;
            // The guest has its files in memory, and unpacks them slowly. What shows lines of code is most of them.
            call(Command::new("strip").args(["--strip-debug"]).arg(&place))?;
        }
        script(&root.join("etc/command"), command)?;
        let overlay = folder.join("overlay.cpio");
        archive(&root, &overlay)?;
        // Archives that follow each other are unpacked one over the other.
        let mut both = fs::read(&self.archive)?;
        both.extend(fs::read(&overlay)?);
        let whole = folder.join("initrd");
        fs::write(&whole, both)?;
        fs::remove_dir_all(&root)?;
        fs::remove_file(&overlay)?;
        Ok(whole)
    }
}

/// Fetches Debian's kernel and unpacks it; returns its release. The one for clouds has no soft-RoCE.
fn unpack_kernel(folder: &Path, unpacked: &Path) -> Result<String> {
    let mut depends = Command::new("apt-cache");
    depends.args(["depends", "linux-image-amd64"]);
    let text = process::output(depends)?;
    let package = text.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let release =
        package.context("linux-image-amd64 depends on no kernel; is the package list there?")?.trim();
    let package = format!("linux-image-{release}");
    let downloads = folder.join("downloads");
    fresh(&downloads)?;
    fresh(unpacked)?;
    call(Command::new("apt-get").args(["download", "-qq", &package]).current_dir(&downloads))?;
    for entry in fs::read_dir(&downloads)? {
        call(Command::new("dpkg-deb").arg("-x").arg(entry?.path()).arg(unpacked))?;
    }
    fs::remove_dir_all(&downloads)?;
    call(Command::new("depmod").arg("-b").arg(unpacked).arg(release))?;
    Ok(release.to_owned())
}

/// Unpacks the kernel here: in a guest without hardware help that takes half of the boot.
fn extract(compressed: &[u8], kernel: &Path) -> Result<()> {
    let start = compressed.windows(XZ_MAGIC.len()).position(|window| window == XZ_MAGIC);
    let start = start.context("the kernel is not packed with xz")?;
    let packed = kernel.with_extension("xz");
    fs::write(&packed, &compressed[start..])?;
    let input = fs::File::open(&packed)?;
    let output = fs::File::create(kernel)?;
    // What follows the kernel is no archive, and xz says so once it is done.
    let _ = Command::new("xz").args(["-dc", "--single-stream"]).stdin(input).stdout(output).status()?;
    fs::remove_file(&packed)?;
    ensure!(fs::read(kernel)?.starts_with(b"\x7fELF"), "what was unpacked is no kernel");
    Ok(())
}

/// Everything that is the same in each run.
fn fill(root: &Path, unpacked: &Path, release: &str) -> Result<()> {
    skeleton(root)?;
    fs::copy("/bin/busybox", root.join("bin/busybox"))?;
    let mut list = Command::new("/bin/busybox");
    list.arg("--list");
    for applet in process::output(list)?.lines().filter(|applet| !["busybox", "ip", "sh"].contains(applet)) {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    // Its shell prefers its own `ip`, which knows too little.
    for (program, link) in [("dash", "sh"), ("ip", "ip"), ("rdma", "rdma")] {
        let found =
            ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().map(|folder| Path::new(folder).join(program));
        let found = found.filter_map(|path| path.canonicalize().ok()).next();
        let found = found.with_context(|| format!("{program} is not installed"))?;
        put(root, &found)?;
        symlink(&found, root.join("bin").join(link))?;
    }
    for library in LIBRARIES {
        put(root, &Path::new(LIBRARY_FOLDER).join(library))?;
    }
    let drivers = fs::read_dir(Path::new(LIBRARY_FOLDER).join("libibverbs"))?;
    for driver in drivers.map(|entry| entry.map(|entry| entry.path())) {
        let driver = driver?;
        if driver.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librxe")) {
            put(root, &driver)?;
        }
    }
    fs::create_dir_all(root.join("etc/libibverbs.d"))?;
    fs::copy("/etc/libibverbs.d/rxe.driver", root.join("etc/libibverbs.d/rxe.driver"))?;
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n")?;
    fs::write(root.join("etc/passwd"), "root:x:0:0::/tmp:/bin/sh\n")?;
    put_modules(root, unpacked, release)?;
    script(&root.join("init"), INIT)
}

/// The modules and what they need, in an order in which they can be loaded.
fn put_modules(root: &Path, unpacked: &Path, release: &str) -> Result<()> {
    let mut order: Vec<String> = Vec::new();
    for module in MODULES {
        let mut depends = Command::new("modprobe");
        depends.arg("-d").arg(unpacked).args(["-S", release, "--show-depends", module]);
        for line in process::output(depends)?.lines() {
            let path = line.strip_prefix("insmod ").and_then(|rest| rest.split_whitespace().next());
            order.extend(path.map(str::to_owned).filter(|path| !order.contains(path)));
        }
    }
    let folder = root.join("usr/lib/modules");
    fs::create_dir_all(&folder)?;
    let mut names = String::new();
    for path in order {
        let path = Path::new(&path);
        let name = path.file_name().context("a module has a name")?.to_string_lossy().into_owned();
        let name = name.trim_end_matches(".xz").to_owned();
        if path.extension().is_some_and(|extension| extension == "xz") {
            let output = fs::File::create(folder.join(&name))?;
            call(Command::new("xz").arg("-dc").arg(path).stdout(output))?;
        } else {
            fs::copy(path, folder.join(&name))?;
        }
        names += &format!("/usr/lib/modules/{name}\n");
    }
    Ok(fs::write(root.join("etc/modules.order"), names)?)
}

fn fresh(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))
}

fn skeleton(root: &Path) -> Result<()> {
    for folder in ["bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr/lib", "usr/lib64"] {
        fs::create_dir_all(root.join(folder))?;
    }
    for (to, from) in [("usr/lib", "lib"), ("usr/lib64", "lib64")] {
        symlink(to, root.join(from))?;
    }
    Ok(())
}

/// Copies a file to where it lies here, and the libraries that it needs.
fn put(root: &Path, file: &Path) -> Result<()> {
    copy(file, &inside(root, file))?;
    put_needed(root, file)
}

fn put_needed(root: &Path, file: &Path) -> Result<()> {
    let output = Command::new("ldd").arg(file).output().context("could not start ldd")?;
    // What is linked statically needs none, and ldd calls that a failure.
    let text = String::from_utf8_lossy(&output.stdout);
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        let place = inside(root, Path::new(library));
        if !place.exists() {
            copy(Path::new(library), &place)?;
        }
    }
    Ok(())
}

fn inside(root: &Path, file: &Path) -> PathBuf {
    root.join(file.strip_prefix("/").unwrap_or(file))
}

/// Copies what a link leads to.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).with_context(|| format!("could not copy {}", from.display()))?;
    Ok(())
}

fn script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Packs a folder as the kernel unpacks it.
fn archive(root: &Path, to: &Path) -> Result<()> {
    let output = fs::File::create(to)?;
    let pack = "find . | cpio --create --format=newc --owner=0:0 --quiet";
    call(Command::new("sh").args(["-c", pack]).current_dir(root).stdout(output))
}

/// Runs a command that has to succeed.
fn call(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("could not start `{}`", process::show(command)))?;
    ensure!(status.success(), "`{}`: {status}", process::show(command));
    Ok(())
}
