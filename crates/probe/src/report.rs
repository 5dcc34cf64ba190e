//! Everything that was found out.

use outboard_limits::Files;
use outboard_link::{Address, ofi, tcp};
use serde::Serialize;

use crate::cgroup::Cgroup;
use crate::fabric::Fabric;
use crate::finding::{Area, Finding, FindingState};
use crate::kernel::Kernel;
use crate::links::{LinkChoice, Links};
use crate::memory::MemoryFacts;
use crate::privileges::Privileges;
use crate::processors::Processors;
use crate::userfaultfd::UserfaultfdSupport;

/// What to find out beyond what is always looked at.
#[derive(Clone, Debug, Default)]
pub struct ProbeOptions {
    /// Peers for which to say which link leads to them. Default: none.
    pub peers: Vec<Address>,
    /// How TCP links are set up, which says how they are protected. Default: that of links.
    pub tcp: tcp::TcpConfig,
    /// How links over libfabric are set up, which says who moves their bytes. Default: that of links.
    pub ofi: ofi::OfiConfig,
    /// What daemons and applications choose here: of what, and what with the reason. Default: nothing to tell.
    pub defaults: Vec<(String, String)>,
}

/// Everything that was found out: for programs by area, for people as findings.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeReport {
    /// In the order of their areas.
    pub findings: Vec<Finding>,
    /// How many findings there are of each kind.
    pub summary: FindingCounts,
    /// For far memory.
    pub userfaultfd: UserfaultfdSupport,
    /// Who this process is, and what it may use.
    pub privileges: Privileges,
    /// What its control groups allow.
    pub cgroup: Cgroup,
    /// Cores, caches and memory nodes.
    pub processors: Processors,
    /// Memory, and how the kernel deals it out.
    pub memory: MemoryFacts,
    /// The kernel, and what else it offers.
    pub kernel: Kernel,
    /// libfabric and the network cards it would drive.
    pub fabric: Fabric,
    /// What decides which link leads to a peer.
    pub links: Links,
    /// Which link leads to each peer that was asked for.
    pub choices: Vec<LinkChoice>,
}

/// How many findings there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FindingCounts {
    /// There, and where it could be tried, working.
    pub good: usize,
    /// Weak or absent, with something to take its place.
    pub limited: usize,
    /// Needed and absent.
    pub missing: usize,
    /// Not found out.
    pub unknown: usize,
}

impl ProbeReport {
    /// Looks around. Takes some milliseconds, waits for no other process and leaves the machine as it was.
    pub fn gather(options: &ProbeOptions) -> Self {
        let files = Files::of_this_machine();
        let userfaultfd = UserfaultfdSupport::with_files(&files);
        let privileges = Privileges::probe(&files);
        let cgroup = Cgroup::probe(&files);
        let processors = Processors::probe(&files);
        let memory = MemoryFacts::probe(&files);
        let kernel = Kernel::probe(&files);
        let fabric = Fabric::probe(&options.ofi);
        let links = Links::probe(&files, kernel.memfd_sealing);
        let choices: Vec<_> =
            options.peers.iter().map(|peer| links.choose(peer).protected(peer, &options.tcp)).collect();

        let mut findings = userfaultfd.findings();
        findings.extend(privileges.findings());
        findings.extend(cgroup.findings());
        findings.extend(processors.findings());
        findings.extend(memory.findings());
        findings.extend(kernel.findings());
        findings.extend(fabric.findings());
        findings.push(crate::links::encryption(&options.tcp));
        findings.extend(choices.iter().map(LinkChoice::finding));
        let of_choice = |(name, detail): &(String, String)| {
            Finding::new(Area::Defaults, name, FindingState::Good, detail)
        };
        findings.extend(options.defaults.iter().map(of_choice));
        let summary = FindingCounts::of(&findings);
        Self {
            findings,
            summary,
            userfaultfd,
            privileges,
            cgroup,
            processors,
            memory,
            kernel,
            fabric,
            links,
            choices,
        }
    }

    /// What is needed and absent. While this is empty, everything works, if not at its best.
    pub fn missing(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.state == FindingState::Missing)
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        // Strings as keys and finite numbers always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl FindingCounts {
    fn of(findings: &[Finding]) -> Self {
        let mut summary = Self::default();
        for finding in findings {
            *match finding.state {
                FindingState::Good => &mut summary.good,
                FindingState::Limited => &mut summary.limited,
                FindingState::Missing => &mut summary.missing,
                FindingState::Unknown => &mut summary.unknown,
            } += 1;
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_this_machine_is_complete_and_consistent() {
        let peers = vec!["unix:@a".parse().unwrap(), "tcp:192.0.2.200:1".parse().unwrap()];
        let report = ProbeReport::gather(&ProbeOptions { peers, ..ProbeOptions::default() });
        assert!(report.findings.is_sorted_by_key(|finding| finding.area));
        for finding in &report.findings {
            assert!(!finding.name.is_empty() && !finding.detail.is_empty(), "{finding:?}");
            assert!(finding.state != FindingState::Limited || finding.fix.is_some(), "no fix: {finding:?}");
            assert!(
                finding.state != FindingState::Good || finding.fix.is_none(),
                "nothing to fix: {finding:?}"
            );
        }
        let FindingCounts { good, limited, missing, unknown } = report.summary;
        assert_eq!(good + limited + missing + unknown, report.findings.len());
        assert_eq!(missing, report.missing().count());
        assert!(report.userfaultfd.is_usable() || missing > 0);
        assert_eq!(report.choices.len(), 2);
    }

    #[test]
    fn json_has_the_agreed_fields() {
        let report = ProbeReport::gather(&ProbeOptions::default());
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "cgroup",
            "choices",
            "fabric",
            "findings",
            "kernel",
            "links",
            "memory",
            "privileges",
            "processors",
            "summary",
            "userfaultfd",
        ];
        assert_eq!(keys, expected);
        let finding: Vec<_> = json["findings"][0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(finding, ["area", "detail", "fix", "name", "state"]);
        assert_eq!(json["findings"][0]["area"], "paging");
        assert_eq!(json["memory"]["page_size"], rustix::param::page_size());
    }
}
