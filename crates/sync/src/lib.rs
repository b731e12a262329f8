//! The partition lock with parking, and the gate.
