//! What a step came to.

/// The end of a step: of `cargo xtask ci`, or of a command given alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and found nothing wrong.
    Passed,
    /// It ran and found something wrong; the first line of the text says what, the others give details. Empty when all has
    /// been said already.
    Failed(String),
    /// It could not run here; the text says why. Never used for something that is broken.
    Skipped(String),
}

impl Outcome {
    /// One word for the summary table.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "skipped",
        }
    }

    /// The reason, in one line, where there is one.
    pub(crate) fn reason(&self) -> &str {
        self.text().lines().next().unwrap_or_default()
    }

    /// What the text says beyond the reason.
    pub(crate) fn details(&self) -> &str {
        self.text().split_once('\n').map_or("", |(_reason, details)| details)
    }

    fn text(&self) -> &str {
        match self {
            Self::Passed => "",
            Self::Failed(text) | Self::Skipped(text) => text,
        }
    }
}
