//! libfabric and the network cards it would drive.

use std::fs;
use std::path::{Path, PathBuf};

use outboard_link::ofi;
use serde::Serialize;

use crate::finding::{Area, Finding, FindingState};

/// libfabric and the network cards it would drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fabric {
    /// The library, if it is installed.
    pub libfabric: Option<Libfabric>,
    /// Which of its providers a link would use, and why; or why it cannot be used.
    pub provider: Option<Result<String, String>>,
    /// Who lets that provider do its work, and why.
    pub progress: Option<String>,
    /// Network cards that read and write memory by themselves, by name.
    pub rdma_devices: Vec<String>,
}

/// The library that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Libfabric {
    /// Where it lies, all links followed.
    pub path: PathBuf,
    /// The number of its interface, which its file is named by; not that of its release.
    pub interface: Option<String>,
    /// Its release, such as 1.17, once it is loaded.
    pub release: Option<String>,
}

const LIBRARY: &str = "libfabric.so.1";
/// What to do about one that cannot be loaded.
const REPAIR: &str = "install it again: sudo apt install --reinstall libfabric1 (Debian, Ubuntu)";

const LIBRARY_FOLDERS: &[&str] = &["/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"];

impl Fabric {
    pub(crate) fn probe(config: &ofi::OfiConfig) -> Self {
        let devices = fs::read_dir("/sys/class/infiniband").into_iter().flatten().flatten();
        let mut rdma_devices: Vec<_> =
            devices.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        rdma_devices.sort_unstable();
        let mut libfabric = find(&library_folders());
        let choice = libfabric.as_mut().map(|library| {
            library.release = ofi::version().ok().map(|(major, minor)| format!("{major}.{minor}"));
            config.choose(None).map_err(|error| error.to_string())
        });
        let progress = choice.as_ref().and_then(|choice| choice.as_ref().ok()).map(ofi::Choice::progress);
        let provider = choice.map(|choice| choice.map(|choice| choice.to_string()));
        Self { libfabric, provider, progress, rdma_devices }
    }

    /// What it means for Outboard.
    pub fn findings(&self) -> Vec<Finding> {
        let library = match &self.libfabric {
            Some(Libfabric { path, release: Some(release), .. }) => {
                format!("{release}, {}; links to addresses that begin with ofi: use it", path.display())
            }
            Some(library) => format!("{} is there and cannot be loaded", library.path.display()),
            None => format!("{LIBRARY} not found: other machines are reached by tcp"),
        };
        let devices = match &self.rdma_devices[..] {
            [] => "none: other machines are reached by tcp".to_owned(),
            devices => devices.join(", "),
        };
        let fix = "install it: sudo apt install libfabric1 (Debian, Ubuntu) or sudo dnf install libfabric";
        let mut findings = vec![
            Finding::new(Area::Links, "RDMA devices", FindingState::Good, devices),
            Finding::new(Area::Links, "libfabric", FindingState::Good, library)
                .limited_unless(
                    self.libfabric.as_ref().is_none_or(|library| library.release.is_some()),
                    REPAIR,
                )
                .limited_unless(self.libfabric.is_some(), fix),
        ];
        findings.extend(self.provider.as_ref().map(|provider| match provider {
            Ok(choice) => Finding::new(Area::Links, "fabric provider", FindingState::Good, choice.clone()),
            Err(why) => Finding {
                fix: Some("see fi_info -l, and name one that works: link.provider".to_owned()),
                ..Finding::new(Area::Links, "fabric provider", FindingState::Limited, why.clone())
            },
        }));
        let progress = self.progress.as_ref();
        findings.extend(
            progress.map(|how| Finding::new(Area::Links, "fabric progress", FindingState::Good, how.clone())),
        );
        findings
    }
}

/// Where the dynamic linker looks, or nearly: what the user says, what is configured, what is usual.
fn library_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    let entries = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
    let mut configs: Vec<_> = entries.map(|entry| entry.path()).collect();
    configs.sort_unstable();
    configs.insert(0, PathBuf::from("/etc/ld.so.conf"));
    for config in configs {
        folders.extend(configured(&fs::read_to_string(config).unwrap_or_default()));
    }
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    folders.extend(LIBRARY_FOLDERS.iter().map(PathBuf::from));
    folders.extend(["/lib", "/usr/lib"].map(|folder| Path::new(folder).join(&triplet)));
    folders
}

/// The folders that a file of `/etc/ld.so.conf.d` names, one on each line.
fn configured(text: &str) -> impl Iterator<Item = PathBuf> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| line.starts_with('/'))
        .map(PathBuf::from)
}

fn find(folders: &[PathBuf]) -> Option<Libfabric> {
    let path = folders.iter().find_map(|folder| folder.join(LIBRARY).canonicalize().ok())?;
    let interface = path.file_name().and_then(|name| interface_of(&name.to_string_lossy()));
    Some(Libfabric { path, interface, release: None })
}

/// `1.20.0` of `libfabric.so.1.20.0`.
fn interface_of(name: &str) -> Option<String> {
    let number = name.strip_prefix("libfabric.so.")?;
    number.split('.').all(|part| part.parse::<u32>().is_ok()).then(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_in_the_name_of_the_file() {
        assert_eq!(interface_of("libfabric.so.1.20.0").as_deref(), Some("1.20.0"));
        assert_eq!(interface_of("libfabric.so.1").as_deref(), Some("1"));
        for other in ["libfabric.so", "libfabric.so.", "libfabric.so.1.x", "libfabrics.so.1"] {
            assert_eq!(interface_of(other), None, "{other}");
        }
    }

    #[test]
    fn folders_are_configured_one_on_a_line() {
        let text = "# libc default\n/usr/local/lib\n\ninclude x/*.conf\n  /opt/fabric/lib # ours\n";
        let folders: Vec<_> = configured(text).collect();
        assert_eq!(folders, [Path::new("/usr/local/lib"), Path::new("/opt/fabric/lib")]);
    }

    #[test]
    fn a_library_that_cannot_be_used_says_why_and_what_to_do() {
        let fabric = Fabric { provider: Some(Err("no provider".to_owned())), ..Fabric::default() };
        let findings = fabric.findings();
        let finding = findings.iter().find(|finding| finding.name == "fabric provider").unwrap();
        assert_eq!((finding.state, &finding.detail[..]), (FindingState::Limited, "no provider"));
        assert!(finding.fix.as_ref().unwrap().contains("link.provider"));
    }

    #[test]
    fn the_chosen_provider_is_a_line() {
        let chosen = "tcp;ofi_rxm on eth0: there is no other";
        let fabric = Fabric { provider: Some(Ok(chosen.to_owned())), ..Fabric::default() };
        assert!(fabric.findings().iter().any(|finding| finding.detail == chosen));
        let how = "manual: this provider prefers it";
        let fabric = Fabric { progress: Some(how.to_owned()), ..fabric };
        let findings = fabric.findings();
        let finding = findings.iter().find(|finding| finding.name == "fabric progress").unwrap();
        assert_eq!((finding.state, &finding.detail[..]), (FindingState::Good, how));
    }

    #[test]
    fn a_library_that_cannot_be_loaded_is_not_good() {
        let library = Libfabric { path: "/lib/libfabric.so.1".into(), interface: None, release: None };
        let finding = |library: Libfabric| {
            let fabric = Fabric { libfabric: Some(library), ..Fabric::default() };
            fabric.findings().into_iter().find(|finding| finding.name == "libfabric").unwrap()
        };
        let damaged = finding(library.clone());
        assert_eq!(damaged.state, FindingState::Limited);
        assert!(damaged.detail.contains("cannot be loaded") && damaged.fix.unwrap().contains("--reinstall"));
        let whole = finding(Libfabric { release: Some("1.17".to_owned()), ..library });
        assert_eq!((whole.state, whole.fix), (FindingState::Good, None));
    }

    #[test]
    fn without_the_library_there_is_a_fix_and_nothing_is_missing() {
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[PathBuf::from("/nowhere")]), None);
        let findings = Fabric::default().findings();
        let finding = findings.iter().find(|finding| finding.name == "libfabric").unwrap();
        assert_eq!(finding.state, FindingState::Limited);
        assert!(finding.fix.as_ref().unwrap().contains("libfabric1"));
    }
}
