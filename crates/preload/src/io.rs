//! System calls that are given far memory, where the kernel cannot wait for it.

/// Begins: where the kernel waits for far memory there is nothing to do.
pub(crate) fn begin(_serves_the_kernel: bool) {}
