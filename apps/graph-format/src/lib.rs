//! Graphs in the formats people have, and generators of graphs.
