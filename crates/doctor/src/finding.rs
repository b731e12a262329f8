//! A finding of the doctor, and its severity.

/// How much a finding matters for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something that works there does not work here.
    Stops,
    /// It works differently, or something must be done first.
    Differs,
    /// Good to know.
    Note,
}

impl Severity {
    /// All severities, worst first.
    pub const ALL: [Severity; 3] = [Severity::Stops, Severity::Differs, Severity::Note];

    /// The name in JSON.
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
    /// One line for each item found.
    pub items: Vec<String>,
    /// What to do about it; may be empty.
    pub advice: String,
}

impl Finding {
    /// A finding that prevents the move.
    pub fn stops(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Severity::Stops, about, says)
    }

    /// A finding about a difference.
    pub fn differs(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Severity::Differs, about, says)
    }

    /// A finding that is good to know.
    pub fn note(about: &'static str, says: impl Into<String>) -> Finding {
        Finding::new(Severity::Note, about, says)
    }

    fn new(severity: Severity, about: &'static str, says: impl Into<String>) -> Finding {
        let (items, advice) = (Vec::new(), String::new());
        Finding { severity, about, says: says.into(), items, advice }
    }

    /// Sets the items.
    pub fn items(mut self, items: Vec<String>) -> Finding {
        self.items = items;
        self
    }

    /// Sets the advice.
    pub fn advice(mut self, advice: impl Into<String>) -> Finding {
        self.advice = advice.into();
        self
    }
}
