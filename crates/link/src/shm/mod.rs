//! Frames and memory between two processes of one node.
