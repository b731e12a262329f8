//! The template of the process's title: text with variables, as in `{title} {listen-addr}`; `{{` is
//! a brace.
//!
//! Not here: what the variables stand for. Tests: at the foot.

use crate::field::{Field, TitleVariable};
use crate::kind::ValueRefusal;

/// A template that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitleTemplate(String);

impl Field for TitleTemplate {
    fn read(text: &str) -> Self {
        Self(text.to_owned())
    }
    fn write(&self) -> String {
        self.0.clone()
    }
}

impl TitleTemplate {
    /// The title, with the values of the variables.
    pub fn expand(&self, value: impl Fn(TitleVariable) -> String) -> String {
        expand(&self.0, value).unwrap_or_default()
    }
}

/// None: a variable that does not end, or is not known.
fn expand(template: &str, value: impl Fn(TitleVariable) -> String) -> Option<String> {
    let (mut title, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        title.push_str(before);
        if let Some(after) = after.strip_prefix('{') {
            title.push('{');
            rest = after;
            continue;
        }
        let (name, after) = after.split_once('}')?;
        let is_known = TitleVariable::WORDS.contains(&name);
        title.push_str(&value(is_known.then(|| TitleVariable::read(name))?));
        rest = after;
    }
    title.push_str(rest);
    Some(title.trim_matches(' ').to_owned())
}

/// Whether a template can be used: it says something, also where there is neither the name of a
/// program nor a mode.
pub(crate) fn check(text: &str, _: &str) -> Result<String, ValueRefusal> {
    let sample = |variable| match variable {
        TitleVariable::Title | TitleVariable::ServerMode => String::new(),
        _ => "-".into(),
    };
    let usable = expand(text, sample).filter(|title| !title.is_empty() && !text.contains('\0'));
    let refusal = ValueRefusal::of("template format is invalid or contains unknown variables");
    usable.map(|_| text.into()).ok_or(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_their_values() {
        let shown = |text: &str| {
            check(text, "").expect("usable");
            TitleTemplate::read(text).expand(|variable| match variable {
                TitleVariable::ServerMode => String::new(),
                other => other.word().to_uppercase(),
            })
        };
        assert_eq!(shown("{title} {listen-addr} {server-mode}"), "TITLE LISTEN-ADDR");
        assert_eq!(shown(" {{x} {port}{tls-port} }"), "{x} PORTTLS-PORT }");
        assert_eq!(shown("{unixsocket}, {config-file}"), "UNIXSOCKET, CONFIG-FILE");
        assert_eq!(shown("plain"), "plain");
    }

    #[test]
    fn what_can_not_be_a_title_is_refused() {
        for text in ["", "  ", "{", "{title", "{nothing}", "a {} b", "{title}", "a\0b"] {
            assert!(check(text, "").is_err(), "{text}");
        }
    }
}
