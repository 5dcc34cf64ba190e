//! Graphs in far memory: the same results as in memory, bit for bit, wherever the bytes come from.

mod cases;
mod cluster;
mod command;
mod counts;
mod late_agent;
mod results;
mod samples;
mod servers;
mod written;
