//! Config, session, wiring, main.
