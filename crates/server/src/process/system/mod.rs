//! The machine and its kernel, as they meet the process: what they allow, and who started it.
//!
//! | file | what |
//! |---|---|
//! | `host` | what is unusual about the machine |
//! | `crash` | the report of a crash |
//! | `limits` | descriptors, connections that wait, a file of the memory after a crash |
//! | `confinement` | what the process gives up (`landlock`) |
//! | `supervision`, `pidfile` | the service manager; the file with the number of the process |
//!
//! Not here: signals (`signals`); calls to the kernel (`pantala_base::os`).

pub(crate) mod confinement;
pub mod crash;
pub(crate) mod host;
pub mod limits;
pub(crate) mod pidfile;
pub mod supervision;
