//! The Dash table and its records.
