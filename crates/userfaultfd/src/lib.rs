//! The system calls of userfaultfd.
