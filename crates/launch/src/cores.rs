//! Which processors the ranks of a job and the agent beside them may use.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity};
use thiserror::Error;

/// Where the agent of a job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentCores {
    /// There is none.
    #[default]
    None,
    /// On the ranks' processors, which it shares with them.
    Same,
    /// On processors that no rank uses.
    Other,
}

impl AgentCores {
    const ALL: [Self; 3] = [Self::None, Self::Same, Self::Other];

    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Same => "same-cores",
            Self::Other => "other-cores",
        }
    }
}

impl fmt::Display for AgentCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AgentCores {
    type Err = CoreError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|cores| cores.name() == text);
        found.ok_or_else(|| CoreError::Unknown { text: text.to_owned() })
    }
}

/// What is to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreRequest {
    /// How many ranks the job has.
    pub ranks: u32,
    /// How many processors each rank is meant to have; default 1.
    pub cpus_per_rank: usize,
    /// Where the agent runs.
    pub agent: AgentCores,
}

/// Processors for ranks and agent. Its `Display` explains the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorePlan {
    /// The ranks', all of them for all ranks; `None` if they are not restricted.
    pub ranks: Option<Vec<usize>>,
    /// The agent's, if there is one.
    pub agent: Option<Vec<usize>>,
    /// What the user should know: that ranks have fewer processors than asked for.
    pub warning: Option<String>,
}

/// Why ranks and agent cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CoreError {
    /// Not one of the known places.
    #[error("`{text}` is no place for an agent; use none, same-cores or other-cores")]
    Unknown {
        /// What was written.
        text: String,
    },
    /// Cores of its own for the agent leave none for the ranks.
    #[error(
        "an agent on other cores needs at least 2 processors and this process may use {allowed}; use same-cores, \
         or allow more (`taskset -p`, cpuset)"
    )]
    TooFewCores {
        /// How many processors there are.
        allowed: usize,
    },
}

impl CorePlan {
    /// Gives the ranks the first of the `allowed` processors, as many as they need, and the agent the rest, or
    /// the same.
    pub fn plan(allowed: &[usize], request: CoreRequest) -> Result<Self, CoreError> {
        let CoreRequest { ranks, cpus_per_rank, agent } = request;
        let wanted = (ranks.max(1) as usize).saturating_mul(cpus_per_rank.max(1));
        let for_ranks = match agent {
            AgentCores::None => return Ok(Self { ranks: None, agent: None, warning: None }),
            AgentCores::Same => allowed.len(),
            AgentCores::Other if allowed.len() < 2 => {
                return Err(CoreError::TooFewCores { allowed: allowed.len() });
            }
            AgentCores::Other => allowed.len() - 1,
        };
        let (own, rest) = allowed.split_at(wanted.min(for_ranks));
        let agent_cpus = if agent == AgentCores::Same { own } else { rest };
        let warning = (own.len() < wanted).then(|| {
            format!("{} should have {wanted} processors and share {}", ranks_text(ranks), own.len())
        });
        Ok(Self { ranks: Some(own.to_vec()), agent: Some(agent_cpus.to_vec()), warning })
    }
}

fn ranks_text(ranks: u32) -> String {
    if ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") }
}

impl fmt::Display for CorePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ranks {
            None => f.write_str("ranks on any processor")?,
            Some(cpus) => write!(f, "ranks on {}", cpus_text(cpus))?,
        }
        match &self.agent {
            None => f.write_str(", no agent")?,
            agent if *agent == self.ranks => f.write_str(", the agent on the same")?,
            Some(cpus) => write!(f, ", the agent on {}", cpus_text(cpus))?,
        }
        match &self.warning {
            None => Ok(()),
            Some(warning) => write!(f, " ({warning})"),
        }
    }
}

/// `processor 3`, `processors 0-2,5`.
fn cpus_text(cpus: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => runs.push((*cpu, *cpu)),
        }
    }
    let run = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let list = runs.iter().map(run).collect::<Vec<_>>().join(",");
    format!("processor{} {list}", if cpus.len() == 1 { "" } else { "s" })
}

/// The processors that this process may use.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(allowed: &[usize], ranks: u32, agent: AgentCores) -> Result<CorePlan, CoreError> {
        CorePlan::plan(allowed, CoreRequest { ranks, cpus_per_rank: 1, agent })
    }

    #[test]
    fn an_agent_on_other_cores_gets_what_the_ranks_leave() {
        let cores = plan(&[0, 1, 2, 5, 6, 7], 2, AgentCores::Other).unwrap();
        assert_eq!(cores.to_string(), "ranks on processors 0-1, the agent on processors 2,5-7");
        let cores = plan(&[0, 1], 4, AgentCores::Other).unwrap();
        assert_eq!((&cores.ranks, &cores.agent), (&Some(vec![0]), &Some(vec![1])));
        let text =
            "ranks on processor 0, the agent on processor 1 (4 ranks should have 4 processors and share 1)";
        assert_eq!(cores.to_string(), text);
    }

    #[test]
    fn an_agent_on_the_same_cores_shares_with_the_ranks() {
        let cores = plan(&[0, 1, 2, 3], 2, AgentCores::Same).unwrap();
        assert_eq!(cores.to_string(), "ranks on processors 0-1, the agent on the same");
        let one = plan(&[7], 1, AgentCores::Same).unwrap();
        assert_eq!((one.ranks, one.agent, one.warning), (Some(vec![7]), Some(vec![7]), None));
    }

    #[test]
    fn several_processors_per_rank_are_counted() {
        let request = CoreRequest { ranks: 2, cpus_per_rank: 3, agent: AgentCores::Other };
        let cores = CorePlan::plan(&[0, 1, 2, 3, 4, 5, 6, 7], request).unwrap();
        assert_eq!((cores.ranks.unwrap().len(), cores.agent.unwrap()), (6, vec![6, 7]));
    }

    #[test]
    fn one_processor_is_too_few_for_other_cores_and_no_agent_needs_no_plan() {
        let error = plan(&[3], 1, AgentCores::Other).unwrap_err();
        assert!(error.to_string().contains("may use 1"), "{error}");
        assert_eq!(plan(&[], 1, AgentCores::None).unwrap().to_string(), "ranks on any processor, no agent");
    }

    #[test]
    fn names_are_read_and_others_refused() {
        for cores in AgentCores::ALL {
            assert_eq!(cores.to_string().parse(), Ok(cores));
        }
        assert!("cores".parse::<AgentCores>().unwrap_err().to_string().contains("same-cores"));
    }

    #[test]
    fn this_process_may_use_a_processor() {
        assert!(!allowed_cpus().unwrap().is_empty());
    }
}
