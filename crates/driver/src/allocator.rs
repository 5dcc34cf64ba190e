//! The memory that the allocator holds and no part of the process uses.

/// Gives it back to the kernel. The allocator keeps what was freed for the thread that had it, and for threads that have ended.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator has no safe form of it")]
pub fn give_memory_back() {
    // SAFETY: it takes only what is not in use.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators give it back by themselves, or cannot.
#[cfg(not(target_env = "gnu"))]
pub fn give_memory_back() {}
