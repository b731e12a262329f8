//! Errors in ACL rules, in Valkey's words.

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No command or category has this name.
    UnknownCommand,
    /// The rule is not understood.
    Syntax,
    /// `+config|get|x`
    WithinSubcommand,
    /// A pattern after `allkeys`.
    KeysAfterAll,
    /// A pattern after `allchannels`.
    ChannelsAfterAll,
    /// The user has no such password.
    NoSuchPassword,
    /// Not a digest.
    BadHash,
    /// No database has this number.
    DatabaseRange,
}

impl RuleError {
    /// The error text for the client.
    pub fn text(self) -> &'static str {
        match self {
            RuleError::UnknownCommand => "Unknown command or category name in ACL",
            RuleError::Syntax => "Syntax error",
            RuleError::WithinSubcommand => "Allowing first-arg of a subcommand is not supported",
            RuleError::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
                 does not have any effect. Try 'resetchannels' to start with an empty list of \
                 channels"
            }
            RuleError::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            RuleError::DatabaseRange => "The provided database ID is out of range",
        }
    }
}

/// Why SETUSER is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetUserError {
    /// The name is not allowed for a user.
    BadName,
    /// A selector that begins here is not closed.
    Unclosed(Vec<u8>),
    /// This rule is wrong.
    Rule(Vec<u8>, RuleError),
}

impl SetUserError {
    /// The error text for the client, without `ERR`.
    pub fn text(&self) -> Vec<u8> {
        match self {
            SetUserError::BadName => b"Usernames can't contain spaces or null characters".to_vec(),
            SetUserError::Unclosed(from) => {
                [b"Unmatched parenthesis in acl selector starting at '", &from[..], b"'."].concat()
            }
            SetUserError::Rule(rule, error) => {
                let text = error.text().as_bytes();
                [b"Error in ACL SETUSER modifier '", &rule[..], b"': ", text].concat()
            }
        }
    }
}
