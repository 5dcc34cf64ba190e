//! The machines that a job runs on.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail};

/// One of the machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// Its name for the remote shell.
    pub(super) name: String,
    /// Where the others reach it; by default found out from its name.
    address: Option<IpAddr>,
    /// How many ranks it takes, if that is said.
    slots: Option<u32>,
}

/// The ranks of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Which machine, and where the others reach it.
    pub(super) host: String,
    pub(super) address: IpAddr,
    /// The number of its first rank, and how many it has.
    pub(super) first: u32,
    pub(super) count: u32,
}

/// The word for the machines that Slurm has given us.
const SLURM: &str = "slurm";

/// The word for the standard input in place of a file.
const STANDARD_INPUT: &str = "-";

/// The machines that `text` names: a file with a line for each, `-` for such lines on the standard input, `slurm`, or a list with commas between.
pub(super) fn find(text: &str) -> Result<Vec<Host>> {
    let hosts = if text == SLURM {
        let list = std::env::var("SLURM_JOB_NODELIST")
            .context("--hosts slurm is for jobs of Slurm, and SLURM_JOB_NODELIST is not set")?;
        expand(&list)?.iter().map(|name| parse(name)).collect::<Result<Vec<_>>>()?
    } else if text == STANDARD_INPUT || std::path::Path::new(text).is_file() {
        let read = match text {
            STANDARD_INPUT => std::io::read_to_string(std::io::stdin().lock()),
            file => std::fs::read_to_string(file),
        };
        let lines = read.with_context(|| format!("cannot read the hosts in {text}"))?;
        let lines = lines.lines().enumerate().map(|(number, line)| (number + 1, line.split('#').next()));
        let lines = lines
            .filter_map(|(number, line)| Some((number, line?.trim())))
            .filter(|(_, line)| !line.is_empty());
        lines
            .map(|(number, line)| parse(line).with_context(|| format!("{text}:{number}")))
            .collect::<Result<_>>()?
    } else if text.contains('/') {
        bail!("there is no file {text} that names hosts");
    } else {
        text.split(',').map(|name| parse(name.trim())).collect::<Result<_>>()?
    };
    let names: BTreeSet<&String> = hosts.iter().map(|host| &host.name).collect();
    if hosts.is_empty() || names.len() < hosts.len() {
        bail!("{text} must name at least one host, and none twice: write its ranks as slots=4");
    }
    Ok(hosts)
}

/// `name`, `name=address`, and behind it `slots=4`, as in host files of MPI.
fn parse(line: &str) -> Result<Host> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    // It is an argument of a remote shell.
    if name.is_empty() || name.starts_with(['-', '=']) {
        bail!("“{line}” is no host: write its name, or name=address, and slots=N behind it if you like");
    }
    let (name, address) = match name.split_once('=') {
        None => (name, None),
        Some((name, address)) => {
            (name, Some(address.parse().with_context(|| format!("{address} in “{line}” is no IP address"))?))
        }
    };
    let slots = match words.next() {
        None => None,
        Some(word) => {
            let slots =
                word.strip_prefix("slots=").and_then(|slots| slots.parse().ok()).filter(|slots| *slots > 0);
            Some(slots.with_context(|| format!("“{word}” in “{line}” is not slots=N"))?)
        }
    };
    if let Some(word) = words.next() {
        bail!("“{word}” in “{line}” means nothing: a host has a name and slots=N");
    }
    Ok(Host { name: name.to_owned(), address, slots })
}

/// The names in a list as Slurm writes it: `a[03-05,9],b`.
fn expand(list: &str) -> Result<Vec<String>> {
    let wrong = || format!("“{list}” is no list of nodes as Slurm writes them");
    let (mut names, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        let (stem, behind) = rest.split_at(end);
        if let Some(behind) = behind.strip_prefix('[') {
            let (numbers, behind) = behind.split_once(']').with_context(wrong)?;
            let end = behind.find(',').unwrap_or(behind.len());
            let (tail, behind) = behind.split_at(end);
            for part in numbers.split(',') {
                let (low, high) = part.split_once('-').unwrap_or((part, part));
                let (first, last): (u32, u32) =
                    (low.parse().with_context(wrong)?, high.parse().with_context(wrong)?);
                if last < first || last - first > 100_000 {
                    bail!(wrong());
                }
                names.extend(
                    (first..=last).map(|number| format!("{stem}{number:0width$}{tail}", width = low.len())),
                );
            }
            rest = behind;
        } else {
            names.push(stem.to_owned());
            rest = behind;
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Ok(names)
}

/// Gives every host its ranks, in blocks. As many as it has slots, and evenly where no slots are given.
pub(super) fn share(hosts: &[Host], ranks: Option<u32>) -> Result<Vec<Share>> {
    let slots: Option<Vec<u32>> = hosts.iter().map(|host| host.slots).collect();
    let room: Option<u32> = slots.as_ref().map(|slots| slots.iter().sum());
    let ranks = match (ranks, room) {
        (Some(ranks), Some(room)) if ranks > room => {
            bail!("{ranks} ranks do not fit into the {room} slots of the hosts");
        }
        (ranks, room) => ranks.or(room).unwrap_or(hosts.len() as u32),
    };
    let even = |index: usize| {
        let (index, count) = (index as u32, hosts.len() as u32);
        ranks / count + u32::from(index < ranks % count)
    };
    let mut first = 0;
    let mut shares = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        let count = slots.as_ref().map_or_else(|| even(index), |slots| slots[index].min(ranks - first));
        if count > 0 {
            shares.push(Share { host: host.name.clone(), address: host.resolve()?, first, count });
        }
        first += count;
    }
    Ok(shares)
}

impl Host {
    fn resolve(&self) -> Result<IpAddr> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        let found = (self.name.as_str(), 0).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        let found = found.map(|address| address.ip());
        found.with_context(|| {
            format!("{0} is neither a host with an address nor a file of hosts here: write {0}=IP", self.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &str, ranks: Option<u32>) -> Vec<(String, u32, u32)> {
        let shares = share(&find(list).unwrap(), ranks).unwrap();
        shares.into_iter().map(|share| (share.host, share.first, share.count)).collect()
    }

    #[test]
    fn ranks_are_shared_in_blocks() {
        let three = "a=10.0.0.1,b=10.0.0.2,c=10.0.0.3";
        let expected = [("a", 0, 3), ("b", 3, 2), ("c", 5, 2)]
            .map(|(name, first, count)| (name.to_owned(), first, count));
        assert_eq!(counts(three, Some(7)), expected);
        assert_eq!(counts(three, None).len(), 3);
        assert_eq!(counts(three, Some(1)), [("a".to_owned(), 0, 1)]);
    }

    #[test]
    fn slots_are_filled_in_order() {
        let folder = std::env::temp_dir().join(format!("outboard-hosts-{}", std::process::id()));
        std::fs::write(&folder, "# ours\na=10.0.0.1 slots=4\n\nb=10.0.0.2 slots=2 # small\n").unwrap();
        let file = folder.display().to_string();
        assert_eq!(counts(&file, None), [("a".to_owned(), 0, 4), ("b".to_owned(), 4, 2)]);
        assert_eq!(counts(&file, Some(5)), [("a".to_owned(), 0, 4), ("b".to_owned(), 4, 1)]);
        let error = share(&find(&file).unwrap(), Some(7)).unwrap_err();
        assert!(error.to_string().contains("6 slots"), "{error}");
        std::fs::remove_file(&folder).unwrap();
    }

    #[test]
    fn what_is_no_host_is_named() {
        for (list, part) in [
            ("", "no host"),
            ("-oProxyCommand=x", "no host"),
            ("a=10.0.0", "no IP address"),
            ("a slots=many", "slots=N"),
            ("a slots=1 b", "means nothing"),
            ("a,a", "none twice"),
            ("./hosts-that-are-not-there.txt", "no file"),
        ] {
            let error = find(list).unwrap_err().to_string();
            assert!(error.contains(part), "{list}: {error}");
        }
    }

    #[test]
    fn a_name_that_may_have_been_meant_as_a_file_is_told_so() {
        let error = share(&find("missing.invalid").unwrap(), None).unwrap_err().to_string();
        assert!(error.contains("nor a file of hosts") && error.contains("missing.invalid=IP"), "{error}");
    }

    #[test]
    fn lists_of_slurm_are_expanded() {
        assert_eq!(expand("n[08-10,2]-ib,m").unwrap(), ["n08-ib", "n09-ib", "n10-ib", "n2-ib", "m"]);
        assert_eq!(expand("one").unwrap(), ["one"]);
        for wrong in ["n[1-", "n[a-b]", "n[9-1]"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
    }
}
