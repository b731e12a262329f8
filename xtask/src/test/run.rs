//! What a step knows of the run that it belongs to.

use std::path::PathBuf;

use super::lines::Fault;

/// How much a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// What tells most in a few minutes, with a debug build.
    Quick,
    /// What must hold before a change lands.
    Usual,
    /// Also what takes hours.
    Long,
}

impl Reach {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Quick, "quick"), (Self::Usual, "usual"), (Self::Long, "long")];

    /// The word by which the process of a step is told.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(reach, _)| *reach == self).map_or("usual", |(_, word)| word)
    }

    /// The reach of this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(reach, _)| *reach)
    }
}

/// A run, as its steps see it. They work in the root of the repository.
pub struct Run {
    /// How much it does.
    pub reach: Reach,
    /// The binary under test.
    pub server: String,
}

impl Run {
    /// A run of this reach, of the binary that $PANTALA names.
    pub fn new(reach: Reach) -> Self {
        let profile = if reach == Reach::Quick { "debug" } else { "release" };
        let built = || crate::root().join("target").join(profile).join("pantala");
        let named = std::env::var_os("PANTALA").filter(|name| !name.is_empty());
        let server = named.map_or_else(built, PathBuf::from);
        Self { reach, server: server.to_string_lossy().into() }
    }

    /// The command line by which the tools of `compat` start the server.
    pub fn spawn(&self) -> String {
        format!("{} --port {{port}} --dir {{dir}} --save ''", self.server)
    }

    /// The command line for the tools in Python, which leave it to the line where the server
    /// listens.
    pub fn local(&self) -> String {
        format!("{} --port {{port}} --dir {{dir}} --bind 127.0.0.1 --save ''", self.server)
    }

    /// The I/O engines that work here. Containers often forbid io_uring; then it cannot be tested.
    pub fn engines(&self) -> Result<Vec<&'static str>, Fault> {
        let mut engines = vec!["epoll"];
        if super::servers::has_uring(&self.server)? {
            engines.push("uring");
        } else {
            eprintln!("io_uring is not allowed here");
        }
        Ok(engines)
    }
}
