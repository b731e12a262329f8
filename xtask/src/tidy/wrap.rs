//! `cargo xtask tidy --wrap`: comment lines beyond 100 columns, broken at a space.
//!
//! The excess moves to the front of the next line of the same paragraph, or becomes a line of its
//! own. Code, tables and fenced blocks are left alone, and so are comments after code: rustfmt and
//! people handle those. Tests: at the foot.

use super::rules::MAX_COLUMNS;

/// The text with its long comment lines wrapped.
pub fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let mut is_fenced = false;
    let mut at = 0;
    while at < lines.len() {
        let Some(comment) = Comment::of(&lines[at]) else {
            (is_fenced, at) = (false, at + 1);
            continue;
        };
        if comment.body.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if let Some((line, rest)) = comment.cut().filter(|_| !is_fenced && comment.flows()) {
            let joined = lines.get(at + 1).and_then(|next| comment.joined(&rest, next));
            match joined {
                Some(next) => lines[at + 1] = next,
                None => lines.insert(at + 1, format!("{}{rest}", comment.hanging())),
            }
            lines[at] = line;
        }
        at += 1;
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

/// A line that is only a comment.
struct Comment<'l> {
    /// Blanks and slashes.
    prefix: &'l str,
    /// Everything after them.
    body: &'l str,
}

impl<'l> Comment<'l> {
    fn of(line: &'l str) -> Option<Self> {
        let indent = line.len() - line.trim_start().len();
        let marker = ["//!", "///", "//"].into_iter().find(|m| line[indent..].starts_with(m))?;
        let (prefix, body) = line.split_at(indent + marker.len());
        Some(Self { prefix, body })
    }

    /// Whether it is text of a paragraph or list, not a table, heading or drawing.
    fn flows(&self) -> bool {
        let text = self.body.trim_start();
        let indent = self.body.len() - text.len();
        !text.starts_with(['|', '#', '+']) && !text.starts_with("```") && indent < 8
    }

    /// The indentation of a paragraph's further lines.
    fn hang(&self) -> usize {
        let text = self.body.trim_start();
        let indent = self.body.len() - text.len();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let bullet = match &text[digits..] {
            rest if digits > 0 && rest.starts_with(". ") => digits + 2,
            rest if digits == 0 && (rest.starts_with("- ") || rest.starts_with("* ")) => 2,
            _ => 0,
        };
        indent + bullet
    }

    fn hanging(&self) -> String {
        format!("{}{}", self.prefix, " ".repeat(self.hang()))
    }

    /// The line up to the last space that lets it fit, and the text after that space.
    fn cut(&self) -> Option<(String, String)> {
        let line = format!("{}{}", self.prefix, self.body);
        if line.chars().count() <= MAX_COLUMNS {
            return None;
        }
        let first = self.prefix.len() + self.hang();
        let fits = |(at, c): &(usize, char)| *c == ' ' && *at > first;
        let (at, _) = line.char_indices().take(MAX_COLUMNS + 1).filter(fits).last()?;
        Some((line[..at].trim_end().into(), line[at..].trim().into()))
    }

    /// The next line with `rest` at its front, if it continues the same paragraph.
    fn joined(&self, rest: &str, next: &str) -> Option<String> {
        let next = Comment::of(next).filter(|next| next.prefix == self.prefix)?;
        let text = next.body.trim_start();
        let starts_anew = text.is_empty() || next.hang() != next.body.len() - text.len();
        let goes_on = !starts_anew && next.flows() && next.hang() == self.hang();
        goes_on.then(|| format!("{}{rest} {text}", self.hanging()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        assert_eq!(wrapped(text), want);
        assert_eq!(wrapped(want), want, "a second time changes nothing");
    }

    #[test]
    fn what_is_too_much_goes_to_the_next_line() {
        let long = "x".repeat(90);
        check(
            &format!("/// {long} aaa bbb\nfn f() {{}}\n"),
            &format!("/// {long} aaa\n/// bbb\nfn f() {{}}\n"),
        );
        check(
            &format!("    // {long} bbb\n    // ccc\n    // 1. other\n"),
            &format!("    // {long}\n    // bbb ccc\n    // 1. other\n"),
        );
        check(
            &format!("//! 1. {long} bbb\n//!    ccc\n//! 2. ddd\n"),
            &format!("//! 1. {long}\n//!    bbb ccc\n//! 2. ddd\n"),
        );
        check(
            &format!("//! {long} bbbbbbb\n//!\n//! c\n"),
            &format!("//! {long}\n//! bbbbbbb\n//!\n//! c\n"),
        );
    }

    #[test]
    fn drawings_tables_and_code_stay() {
        let long = "x y ".repeat(40);
        for text in [
            format!("let a = \"{long}\";\n"),
            format!("//! ```text\n//! {long}z\n//! ```\n"),
            format!("//! | {long}z |\n"),
            format!("// {}\n", "x".repeat(200)),
        ] {
            check(&text, &text);
        }
    }
}
