//! A finding of the doctor, and its severity.

/// How much something matters to whom wants to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// What works there does not work here.
    Stops,
    /// It works, but otherwise, or something has to be done first.
    Differs,
    /// Good to know.
    Note,
}

impl Severity {
    /// From the worst.
    pub const ALL: [Severity; 3] = [Severity::Stops, Severity::Differs, Severity::Note];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Stops => "stops",
            Severity::Differs => "differs",
            Severity::Note => "note",
        }
    }
}

/// One finding: severity, subject, text and advice.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The subject in one word: `commands`, `cluster`.
    pub about: &'static str,
    /// What was found.
    pub says: String,
    /// One line for each thing that was found.
    pub items: Vec<String>,
    /// What to do about it; may be empty.
    pub advice: String,
}

impl Finding {
    /// Something that stops the move.
    pub fn stops(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Severity::Stops, about, says)
    }

    /// Something that differs.
    pub fn differs(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Severity::Differs, about, says)
    }

    /// Something that is good to know.
    pub fn note(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Severity::Note, about, says)
    }

    fn new(severity: Severity, about: &'static str, says: impl Into<String>) -> Finding {
        let (items, advice) = (Vec::new(), String::new());
        Finding { severity, about, says: says.into(), items, advice }
    }

    /// With these items.
    pub fn items(mut self, items: Vec<String>) -> Finding {
        self.items = items;
        self
    }

    /// With this advice.
    pub fn advice(mut self, advice: impl Into<String>) -> Finding {
        self.advice = advice.into();
        self
    }
}
