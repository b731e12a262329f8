//! Partitions, lock plans, lookup, expiry, waiters, the change stream.
