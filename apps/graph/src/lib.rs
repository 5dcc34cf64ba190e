//! Five graph applications on compressed sparse rows, wherever their arrays lie.
