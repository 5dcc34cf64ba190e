//! What a link can do, said once at set-up.

/// How one-sided access reaches the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSided {
    /// The memory is mapped here: the processor does it, and it is complete when the call returns.
    Mapped,
    /// A network card does it, past the peer's processor. What it cannot register, the peer's link does on request.
    Hardware,
    /// Software does it past the peer's link, where no process writes bytes that another reads at that moment. Other regions
    /// are served.
    Lent,
    /// The peer's link does it on request.
    Served,
}

/// What an atomic is atomic against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicDomain {
    /// The owner's processors and every link whose domain this is.
    Cpu,
    /// Only other accesses through the same NIC.
    Nic,
}

/// What a link can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What people call it.
    pub name: &'static str,
    /// The longest payload of a frame, in bytes.
    pub max_payload: usize,
    /// How one-sided access works.
    pub one_sided: OneSided,
    /// The longest one-sided read or write, in bytes.
    pub max_access: usize,
    /// How many one-sided operations can be under way.
    pub max_operations: usize,
    /// What atomics are atomic against.
    pub atomics: AtomicDomain,
    /// Whether the owner of a region must call `progress` for others to reach it.
    pub needs_target_progress: bool,
}
