//! The application's pager.
