//! Which placement to use, and why.

use outboard_messages::Category;
use outboard_settings::MessagesPlacement;

use super::trial::Tried;

/// Which placement to use, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) placement: MessagesPlacement,
    pub(super) why: String,
    /// The bytes that an agent moved in a second over those that ranks moved themselves, if both were measured.
    pub(super) gain: Option<f64>,
    /// By what the program fetches from memory, if that is known.
    pub(super) category: Option<Category>,
    /// Bytes fetched for each byte sent, and whether that was measured.
    pub(super) ratio: Option<(f64, bool)>,
}

/// Differences of less than this share are chance.
const CHANCE: f64 = 0.05;

impl Verdict {
    /// Compares what was tried.
    pub(super) fn reach(inline: &Tried, agent: Result<&Tried, String>) -> Self {
        let ratio = inline.memory;
        let category = ratio.and_then(|(ratio, _)| Category::of(ratio));
        let gain = agent.as_ref().ok().map(|agent| agent.summary.rate() / inline.summary.rate().max(1e-9));
        let (placement, mut why) = match (gain, agent) {
            (Some(gain), _) if gain > 1.0 + CHANCE => (
                MessagesPlacement::Agent,
                format!("with an agent, messages are handled {gain:.2} times as fast"),
            ),
            (Some(gain), _) if gain < 1.0 - CHANCE => (
                MessagesPlacement::Inline,
                format!("with an agent on these processors, messages are handled {gain:.2} times as fast"),
            ),
            (Some(_), _) => (
                MessagesPlacement::Inline,
                "an agent makes no difference here, and is one more thing to run".to_owned(),
            ),
            (None, Err(failure)) => {
                (MessagesPlacement::Inline, format!("nothing is known of an agent: {failure}"))
            }
            (None, Ok(_)) => (MessagesPlacement::Inline, "no agent was tried".to_owned()),
        };
        if let Some(category) = category {
            why = format!("{why}. {}", elsewhere(category));
        }
        Self { placement, why, gain, category, ratio }
    }
}

/// The gain to expect of an agent on other cores, or on a DPU.
fn elsewhere(category: Category) -> &'static str {
    match category {
        Category::CommunicationDominated => {
            "It is communication-dominated: elsewhere an agent pays on cores as strong as these, and holds everybody up on weaker ones, such as a DPU's"
        }
        Category::Balanced => {
            "It is balanced: elsewhere an agent pays, much on cores as strong as these, a little on weaker ones, such as a DPU's"
        }
        Category::HostDominated => {
            "It is host-dominated: elsewhere an agent pays on any cores, a DPU's too, since these are left to the program's own work"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reports::Summary;
    use super::*;

    fn tried(rate: u64, memory: Option<f64>) -> Tried {
        let summary = Summary { seconds: 1.0, bytes_handled: rate, ..Summary::default() };
        let memory = memory.map(|ratio| (ratio, true));
        Tried { summary, runs: 1, was_cut: false, memory, utilisation: None }
    }

    fn reach(inline: u64, agent: Result<u64, &str>, memory: Option<f64>) -> Verdict {
        let agent = agent.map(|rate| tried(rate, None));
        let agent = agent.as_ref().map_err(|failure| (*failure).to_owned());
        Verdict::reach(&tried(inline, memory), agent)
    }

    #[test]
    fn the_faster_one_is_used_and_inline_if_there_is_no_difference() {
        let verdict = |agent| reach(1000, Ok(agent), None);
        assert_eq!(verdict(1200).placement, MessagesPlacement::Agent);
        assert!(verdict(1200).why.contains("1.20 times"), "{:?}", verdict(1200));
        assert_eq!(
            (verdict(1020).placement, verdict(500).placement),
            (MessagesPlacement::Inline, MessagesPlacement::Inline)
        );
        assert!(verdict(1020).why.contains("no difference") && verdict(500).why.contains("0.50 times"));
    }

    #[test]
    fn a_placement_that_does_not_work_is_no_choice_and_the_reason_is_told() {
        let verdict = reach(1000, Err("it exited with code 1"), None);
        assert_eq!((verdict.placement, verdict.gain), (MessagesPlacement::Inline, None));
        assert!(verdict.why.contains("exited with code 1"), "{verdict:?}");
    }

    #[test]
    fn the_category_says_what_would_be_elsewhere() {
        let words = |ratio| reach(1000, Ok(500), Some(ratio)).why;
        assert!(words(0.5).contains("communication-dominated") && words(1.5).contains("balanced"));
        assert!(words(72.0).contains("host-dominated"));
        assert_eq!(reach(1, Ok(1), None).category, None);
    }
}
