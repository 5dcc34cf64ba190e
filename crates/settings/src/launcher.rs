//! What launchers tell the processes that they start: which of how many each is.
//!
//! A job that `mpirun`, `srun` or `torchrun` starts needs no configuration. What they say is looked at only where nothing
//! else does, so a process that `outboard run` starts below one of them belongs to the inner job.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use crate::secret::SIBLINGS;

/// A value that a launcher's variables stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The key: `job.rank`.
    pub(crate) key: &'static str,
    /// The variable that says it, or most of it.
    pub(crate) variable: &'static str,
    /// The value, as text.
    pub(crate) value: String,
}

/// The variable by which people say where ranks meet.
const RENDEZVOUS: &str = "OUTBOARD_JOB_RENDEZVOUS";
/// An address that no machine has, to ask by which of its own this one would go to others. Nothing is sent there.
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

/// Ports that are neither assigned nor given out by kernels on their own.
const FIRST_PORT: u64 = 20_000;
const PORTS: u64 = 12_000;

/// The environment, and the network as far as it is needed.
pub(crate) struct Surroundings<'a> {
    /// A variable that is set to something.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// The address of a host.
    pub(crate) address_of: &'a dyn Fn(&str) -> Option<IpAddr>,
    /// The address by which this machine is seen from there.
    pub(crate) seen_from: &'a dyn Fn(IpAddr) -> Option<IpAddr>,
    /// What the processes of one job on one machine have in common, and no other process has.
    pub(crate) siblings: &'a dyn Fn() -> String,
}

/// What the launcher of this process says, if there is one.
pub(crate) fn from_process(variable: &dyn Fn(&str) -> Option<String>) -> Vec<Said> {
    said(&Surroundings { variable, address_of: &address_of, seen_from: &seen_from, siblings: &siblings })
}

/// What a launcher says.
pub(crate) fn said(surroundings: &Surroundings<'_>) -> Vec<Said> {
    find(surroundings).map_or(Vec::new(), |launched| launched.said(surroundings))
}

/// A process that was started by a launcher.
struct Launched {
    rank: (&'static str, String),
    size: (&'static str, String),
    /// How many of them are on this machine, if that is known.
    here: Option<String>,
    /// What only this job has.
    name: (&'static str, String),
    /// What only its processes know.
    secret: Option<(&'static str, String)>,
    /// The host of rank 0, and the port where ranks meet there, if not just any.
    first_host: Option<(&'static str, String, Option<u16>)>,
}

/// The innermost launcher: those that are started by another come first.
fn find(surroundings: &Surroundings<'_>) -> Option<Launched> {
    let set = surroundings.variable;
    let is_torchrun = set("TORCHELASTIC_RUN_ID").is_some();
    if is_torchrun && let Some(found) = torch(surroundings) {
        return Some(found);
    }
    open_mpi(surroundings)
        .or_else(|| hydra(surroundings).filter(|found| !is_of_slurm(found, set)))
        .or_else(|| slurm(surroundings))
        .or_else(|| torch(surroundings))
}

fn pair(set: &dyn Fn(&str) -> Option<String>, name: &'static str) -> Option<(&'static str, String)> {
    set(name).map(|value| (name, value))
}

fn open_mpi(surroundings: &Surroundings<'_>) -> Option<Launched> {
    let set = surroundings.variable;
    let rank = pair(set, "OMPI_COMM_WORLD_RANK")?;
    let size = pair(set, "OMPI_COMM_WORLD_SIZE")?;
    let name = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"].into_iter().find_map(|name| pair(set, name));
    let server = set("OMPI_MCA_orte_hnp_uri").unwrap_or_default();
    let name = name.map(|(variable, value)| (variable, format!("{value} {server}")));
    // Random, drawn by mpirun for every job.
    let secret = pair(set, "OMPI_MCA_orte_precondition_transports");
    Some(Launched {
        rank,
        size,
        here: set("OMPI_COMM_WORLD_LOCAL_SIZE"),
        name: name.unwrap_or_else(|| ("OMPI_COMM_WORLD_SIZE", (surroundings.siblings)())),
        secret,
        first_host: None,
    })
}

/// MPICH, Intel MPI and what else starts processes by Hydra.
fn hydra(surroundings: &Surroundings<'_>) -> Option<Launched> {
    let set = surroundings.variable;
    Some(Launched {
        rank: pair(set, "PMI_RANK")?,
        size: pair(set, "PMI_SIZE")?,
        here: set("MPI_LOCALNRANKS"),
        name: ("PMI_SIZE", (surroundings.siblings)()),
        secret: None,
        first_host: None,
    })
}

/// Slurm speaks PMI too, and itself says more.
fn is_of_slurm(found: &Launched, set: &dyn Fn(&str) -> Option<String>) -> bool {
    set("SLURM_STEP_ID").is_some() && set("SLURM_PROCID").as_ref() == Some(&found.rank.1)
}

/// A task of a step. The script of a batch job has a number too, and is none of several.
fn slurm(surroundings: &Surroundings<'_>) -> Option<Launched> {
    let set = surroundings.variable;
    let step = pair(set, "SLURM_STEP_ID").or_else(|| pair(set, "SLURM_STEPID"))?;
    let job = set("SLURM_JOB_ID").unwrap_or_default();
    let nodes = pair(set, "SLURM_STEP_NODELIST").or_else(|| pair(set, "SLURM_JOB_NODELIST"));
    let size = pair(set, "SLURM_STEP_NUM_TASKS").or_else(|| pair(set, "SLURM_NTASKS"))?;
    let is_alone =
        set("SLURM_STEP_NUM_NODES").or_else(|| set("SLURM_NNODES")).is_some_and(|count| count == "1");
    Some(Launched {
        rank: pair(set, "SLURM_PROCID")?,
        here: is_alone.then(|| size.1.clone()),
        size,
        name: (step.0, format!("{} {job} {}", set("SLURM_CLUSTER_NAME").unwrap_or_default(), step.1)),
        secret: None,
        first_host: nodes.map(|(variable, list)| (variable, first_host(&list), None)),
    })
}

/// `torchrun`, and others that set the same variables.
fn torch(surroundings: &Surroundings<'_>) -> Option<Launched> {
    let set = surroundings.variable;
    let host = pair(set, "MASTER_ADDR")?;
    let port = set("MASTER_PORT")?;
    let run = set("TORCHELASTIC_RUN_ID").unwrap_or_default();
    let restart = set("TORCHELASTIC_RESTART_COUNT").unwrap_or_default();
    Some(Launched {
        rank: pair(set, "RANK")?,
        size: pair(set, "WORLD_SIZE")?,
        here: set("LOCAL_WORLD_SIZE"),
        name: ("MASTER_PORT", format!("{run} {restart} {} {port}", host.1)),
        secret: None,
        // The port itself belongs to the launcher.
        first_host: Some((host.0, host.1, port.parse().ok().and_then(|port: u16| port.checked_add(1)))),
    })
}

/// The first of a list of hosts as Slurm writes it: `a[03-17,20],b4`.
fn first_host(list: &str) -> String {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (name, rest) = list.split_at(end);
    let Some(numbers) = rest.strip_prefix('[') else { return name.to_owned() };
    let number = numbers.split(['-', ',', ']']).next().unwrap_or_default();
    let tail = numbers.split_once(']').map_or("", |(_, tail)| tail.split(',').next().unwrap_or_default());
    format!("{name}{number}{tail}")
}

impl Launched {
    fn said(self, surroundings: &Surroundings<'_>) -> Vec<Said> {
        let mut all = vec![
            Said { key: "job.rank", variable: self.rank.0, value: self.rank.1 },
            Said { key: "job.size", variable: self.size.0, value: self.size.1.clone() },
        ];
        all.push(Said { key: "job.start_agent", variable: self.rank.0, value: "true".to_owned() });
        let id = hash(&self.name.1);
        all.push(Said { key: "job.id", variable: self.name.0, value: format!("{id:016x}") });
        if let Some((variable, secret)) = self.secret {
            all.push(Said { key: "job.secret", variable, value: secret });
        } else if self.here.as_ref() == Some(&self.size.1) {
            // Ranks of one machine meet where only their user is let in. That they name the job is enough.
            let value = format!("{SIBLINGS}{id:016x}");
            all.push(Said { key: "job.secret", variable: self.name.0, value });
        }
        if self.here.as_ref() == Some(&self.size.1) {
            return all;
        }
        // They would all meet at rank 0, wherever the place comes from.
        all.push(Said { key: "job.rank0_hosts", variable: self.rank.0, value: "true".to_owned() });
        let meeting = match self.first_host {
            Some((variable, host, port)) => resolve(&host, surroundings).map(|address| {
                let port = port.unwrap_or((FIRST_PORT + id % PORTS) as u16);
                let place = SocketAddr::new(address, port);
                all.push(Said { key: "job.rendezvous", variable, value: format!("tcp:{place}") });
                (variable, address)
            }),
            // A user who names the place by hand names it for all ranks; each has an address of its own.
            None => told_place(surroundings).map(|address| (RENDEZVOUS, address)),
        };
        if let Some((variable, address)) = meeting
            && let Some(own) = (surroundings.seen_from)(address)
        {
            let value = format!("tcp:{}", SocketAddr::new(own, 0));
            all.push(Said { key: "job.listen", variable, value });
        }
        all
    }
}

/// Fowler, Noll and Vo's: the same on every machine. What has to be secret is not left to it.
fn hash(text: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, fold)
}

/// Where ranks were told to meet, if that is another machine's address.
fn told_place(surroundings: &Surroundings<'_>) -> Option<IpAddr> {
    let place = (surroundings.variable)(RENDEZVOUS)?;
    let address: SocketAddr = place.strip_prefix("tcp:")?.parse().ok()?;
    Some(address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// The address of a host as other nodes know it. Many systems call themselves 127.0.1.1, where no other node finds them.
fn resolve(host: &str, surroundings: &Surroundings<'_>) -> Option<IpAddr> {
    let address = (surroundings.address_of)(host)?;
    let is_a_name = host.parse::<IpAddr>().is_err() && host != "localhost";
    if is_a_name && address.is_loopback() {
        return (surroundings.seen_from)(ELSEWHERE).or(Some(address));
    }
    Some(address)
}

fn address_of(host: &str) -> Option<IpAddr> {
    (host, 0).to_socket_addrs().ok()?.next().map(|address| address.ip())
}

/// Which of our addresses the kernel would send from. Nothing is sent.
fn seen_from(other: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if other.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((other, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Ranks of one machine have the same parent; when it began tells it from an earlier one of the same number.
fn siblings() -> String {
    let parent = std::os::unix::process::parent_id();
    let stat = std::fs::read_to_string(format!("/proc/{parent}/stat")).unwrap_or_default();
    // The name in parentheses may contain anything; twenty fields behind it is the time.
    let began =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)).unwrap_or_default();
    format!("{parent} {began}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said_with(variables: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let surroundings = Surroundings {
            variable: &variable,
            address_of: &|host| match host {
                "node03" | "head" => Some([10, 0, 0, 3].into()),
                "myself" => Some([127, 0, 1, 1].into()),
                "127.0.0.1" => Some([127, 0, 0, 1].into()),
                _ => None,
            },
            seen_from: &|_| Some([10, 0, 0, 7].into()),
            siblings: &|| "parent".to_owned(),
        };
        said(&surroundings).into_iter().map(|said| (said.key, said.value)).collect()
    }

    fn value<'a>(said: &'a [(&str, String)], key: &str) -> Option<&'a str> {
        said.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }

    #[test]
    fn without_a_launcher_nothing_is_said() {
        assert_eq!(said_with(&[("RANK", "3"), ("WORLD_SIZE", "4")]), []);
        assert_eq!(said_with(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "9")]), []);
    }

    #[test]
    fn ranks_of_mpirun_on_one_machine_need_nothing_more() {
        let said = said_with(&[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("PMIX_NAMESPACE", "1739325441"),
            ("OMPI_MCA_orte_precondition_transports", "4a94a5d3c8846fdc-f4b7d210386dc911"),
        ]);
        assert_eq!(value(&said, "job.rank"), Some("1"));
        assert_eq!(value(&said, "job.size"), Some("4"));
        assert_eq!(value(&said, "job.secret"), Some("4a94a5d3c8846fdc-f4b7d210386dc911"));
        assert!(value(&said, "job.id").is_some());
        assert_eq!((value(&said, "job.rendezvous"), value(&said, "job.start_agent")), (None, Some("true")));
    }

    #[test]
    fn ranks_of_mpirun_on_several_machines_meet_at_rank_0_wherever_that_is_said_to_be() {
        let said = said_with(&[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ]);
        assert_eq!(value(&said, "job.rank0_hosts"), Some("true"));
        assert_eq!(value(&said, "job.secret"), None, "nothing that others could guess");
        assert_eq!(value(&said, "job.listen"), None);
        let listen = |place| {
            let said = said_with(&[
                ("OMPI_COMM_WORLD_RANK", "1"),
                ("OMPI_COMM_WORLD_SIZE", "4"),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
                ("OUTBOARD_JOB_RENDEZVOUS", place),
            ]);
            value(&said, "job.listen").map(str::to_owned)
        };
        assert_eq!(listen("tcp:10.0.0.3:25000").as_deref(), Some("tcp:10.0.0.7:0"));
        assert_eq!(listen("tcp:127.0.0.1:25000"), None);
        assert_eq!(listen("unix:@meeting"), None);
    }

    #[test]
    fn a_node_that_calls_itself_loopback_is_met_where_others_find_it() {
        let place = |nodes| {
            let said = said_with(&[
                ("SLURM_PROCID", "0"),
                ("SLURM_STEP_NUM_TASKS", "2"),
                ("SLURM_STEP_NUM_NODES", "2"),
                ("SLURM_STEP_ID", "0"),
                ("SLURM_STEP_NODELIST", nodes),
            ]);
            value(&said, "job.rendezvous").map(str::to_owned).unwrap()
        };
        assert!(place("myself,other").starts_with("tcp:10.0.0.7:"), "{}", place("myself,other"));
        assert!(place("127.0.0.1,other").starts_with("tcp:127.0.0.1:"), "who says so means it");
    }

    #[test]
    fn tasks_of_slurm_meet_on_the_first_node() {
        let variables = [
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_STEP_NUM_NODES", "4"),
            ("SLURM_STEP_ID", "2"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_NODELIST", "node[03-05,9]"),
            ("PMI_RANK", "5"),
            ("PMI_SIZE", "8"),
        ];
        let said = said_with(&variables);
        assert!(value(&said, "job.rendezvous").is_some_and(|place| place.starts_with("tcp:10.0.0.3:2")));
        assert_eq!(value(&said, "job.listen"), Some("tcp:10.0.0.7:0"));
        assert_eq!(value(&said, "job.secret"), None);
        let other: Vec<_> =
            variables.map(|(name, value)| (name, if name == "SLURM_STEP_ID" { "3" } else { value })).into();
        assert_ne!(
            value(&said, "job.id"),
            value(&said_with(&other), "job.id"),
            "another step is another job"
        );
    }

    #[test]
    fn torchrun_below_slurm_is_the_one_that_counts() {
        let said = said_with(&[
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_STEP_ID", "0"),
            ("TORCHELASTIC_RUN_ID", "none"),
            ("RANK", "6"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_WORLD_SIZE", "4"),
            ("MASTER_ADDR", "head"),
            ("MASTER_PORT", "29500"),
        ]);
        assert_eq!(value(&said, "job.rank"), Some("6"));
        assert_eq!(value(&said, "job.rendezvous"), Some("tcp:10.0.0.3:29501"));
    }

    #[test]
    fn siblings_of_hydra_are_a_job() {
        let said = said_with(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2")]);
        assert!(value(&said, "job.secret").is_some_and(|secret| secret.len() >= 16));
    }

    #[test]
    fn the_first_host_is_found_in_any_list() {
        for (list, first) in
            [("a", "a"), ("a,b", "a"), ("n[1-3]", "n1"), ("n[007,9]-ib,m", "n007-ib"), ("", ""), ("x[", "x")]
        {
            assert_eq!(first_host(list), first, "{list}");
        }
    }
}
