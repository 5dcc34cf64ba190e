//! How far something that takes a while has come.

/// Hears how far work on a graph has come. Called from several threads at once.
pub trait FormatProgress: Sync {
    /// The next part of the work begins, so large in a unit of its own.
    fn begin(&self, what: &'static str, total: u64);
    /// So much more of it is done.
    fn advance(&self, amount: u64);
}

/// Hears nothing.
impl FormatProgress for () {
    fn begin(&self, _what: &'static str, _total: u64) {}
    fn advance(&self, _amount: u64) {}
}
