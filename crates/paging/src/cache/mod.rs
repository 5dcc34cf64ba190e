//! The agent's page cache.
