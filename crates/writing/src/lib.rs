//! Decides by which path each remote write goes, keeps the paths in order, and drains what was unloaded.
//! State machines only: no I/O, no clocks, and no memory but the staging ring.

#![forbid(unsafe_code)]
