//! The machine, its kernel and its service manager: limits, confinement, crash reports.
//!
//! | file | what |
//! |---|---|
//! | `crash` | the report of a crash |
//! | `limits` | descriptors, waiting connections, core files |
//! | `oom_score` | how readily the kernel ends it when memory runs out |
//! | `title` | what `ps` shows of it |
//! | `confinement` | rights the process gives up (`landlock`) |
//! | `supervision`, `pidfile` | the service manager; the file with the process's number |
//!
//! Not here: signals (`signals`); calls to the kernel (`pantala_base::os`).

pub(crate) mod confinement;
pub mod crash;
pub mod limits;
pub(crate) mod oom_score;
pub(crate) mod pidfile;
pub mod supervision;
pub mod title;
