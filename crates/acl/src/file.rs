//! Users as lines of text: `aclfile`, and `user` lines of the configuration file.
//!
//! A line is `user name rule rule ...`, its words separated by single spaces: two consecutive
//! spaces enclose an empty word. There are no quotes and no comments.
//!
//! Not here: the file itself. Tests: at the foot.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{RuleError, SetUserError};
use crate::rules::patterns::DefaultChannels;
use crate::rules::words::has_space;
use crate::user::User;
use crate::users::{Users, merged};

/// The end of every list of errors.
const NOTHING_CHANGED: &str = "WARNING: ACL errors detected, no change to the previously active \
    ACL rules was performed";

impl Users {
    /// All users as text, one per line, each with a line feed.
    pub fn to_text(&self) -> Vec<u8> {
        let line = |user: &Arc<User>| [&user.describe()[..], b"\n"].concat();
        self.iter().flat_map(line).collect()
    }

    /// The users of a file and no others, all of them new ([`Users::in_place_of`]). The default
    /// user, if the file does not name it, has all permissions.
    ///
    /// # Errors
    /// The errors, with the file's name and line numbers, in Valkey's words.
    pub fn loaded(
        &self,
        text: &[u8],
        file: &str,
        channels: DefaultChannels,
    ) -> Result<Users, Vec<u8>> {
        let users = Users::new(Arc::clone(self.catalogue()));
        let mut reader = Reader { users, channels, named: BTreeSet::new(), errors: Vec::new() };
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            reader.line(line.trim_ascii(), index + 1, file);
        }
        if reader.errors.is_empty() {
            return Ok(reader.users);
        }
        reader.errors.extend(NOTHING_CHANGED.as_bytes());
        Err(reader.errors)
    }
}

struct Reader {
    users: Users,
    channels: DefaultChannels,
    named: BTreeSet<Vec<u8>>,
    errors: Vec<u8>,
}

impl Reader {
    fn wrong(&mut self, parts: &[&[u8]]) {
        self.errors.extend(parts.concat());
        self.errors.extend(b". ");
    }

    fn line(&mut self, line: &[u8], number: usize, file: &str) {
        if line.is_empty() {
            return;
        }
        let place = format!("{file}:{number}").into_bytes();
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", name, rules @ ..] = words.as_slice() else {
            let what = b" should start with user keyword followed by the username";
            return self.wrong(&[&place, what]);
        };
        if !self.named.insert(name.to_vec()) {
            let at = format!("' found on line {number}");
            return self.wrong(&[b"WARNING: Duplicate user '", name, at.as_bytes()]);
        }
        if has_space(name) {
            return self.wrong(&[&place, b": username '", name, b"' contains invalid characters"]);
        }
        match merged(rules) {
            Ok(rules) => self.user(name, &rules, &place),
            Err(SetUserError::Unclosed(_) | SetUserError::BadName | SetUserError::Rule(..)) => {
                self.wrong(&[&place, b": Unmatched parenthesis in selector definition"]);
            }
        }
    }

    fn user(&mut self, name: &[u8], rules: &[Vec<u8>], place: &[u8]) {
        let catalogue = Arc::clone(self.users.catalogue());
        let mut user = User::new(name, &catalogue, self.channels);
        let mut has_told = false;
        for rule in rules {
            let rule = rule.trim_ascii();
            let Err(error) = user.change(rule, &catalogue, self.channels) else { continue };
            let text = error.text().as_bytes();
            match error {
                RuleError::UnknownCommand => {
                    let what = b": Error in applying operation '";
                    self.wrong(&[place, what, rule, b"': ", text]);
                }
                // Errors after the first may be consequences of it.
                _ if has_told => {}
                _ => {
                    has_told = true;
                    self.wrong(&[place, b": ", text]);
                }
            }
        }
        self.users.insert(user);
    }
}
