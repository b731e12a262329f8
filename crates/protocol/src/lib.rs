//! RESP2, RESP3 and inline commands, sans-IO.
