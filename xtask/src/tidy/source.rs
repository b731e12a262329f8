//! Rust text for the tidy rules: comments and literals blanked, test code marked, functions found.
//!
//! Invariants
//! 1. Blanking keeps every newline and each line's length in characters, so line numbers stay
//!    right.
//! 2. Broken or odd text yields a poor result, never a panic: the compiler judges it anyway.
//!
//! Not here: the rules (`rules`). A macro that defines functions is seen as written. Tests: at the
//! foot.

/// An analysed Rust file.
pub struct Source {
    /// Lines with the insides of comments and literals blanked.
    pub code: Vec<String>,
    /// Whether each line belongs to tests.
    pub is_test: Vec<bool>,
    /// Functions outside tests.
    pub functions: Vec<Function>,
}

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its first line, counted from 0.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub line_count: usize,
}

impl Source {
    /// Analyses the text of the file at `path`.
    pub fn new(path: &str, text: &str) -> Self {
        let blanked: Vec<char> = blank(text);
        let lines: Vec<String> =
            blanked.split(|&c| c == '\n').map(|line| line.iter().collect()).collect();
        let mut is_test = vec![is_test_path(path); lines.len()];
        for (first, last) in test_regions(&blanked) {
            is_test[first..=last.min(lines.len() - 1)].fill(true);
        }
        let mut functions = functions(&blanked);
        functions.retain(|function| !is_test[function.line]);
        Self { code: lines, is_test, functions }
    }

    /// Lines outside tests.
    pub fn live_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.iter().enumerate().filter(|(index, _)| !self.is_test[*index]);
        lines.map(|(index, line)| (index, line.as_str()))
    }

    /// Lines of tests.
    pub fn test_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.iter().enumerate().filter(|(index, _)| self.is_test[*index]);
        lines.map(|(index, line)| (index, line.as_str()))
    }
}

/// Identifiers and keywords of a blanked line.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The text with the insides of comments, strings and characters turned into blanks.
fn blank(text: &str) -> Vec<char> {
    let text: Vec<char> = text.chars().collect();
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let end = literal_end(&text, at);
        if end == at {
            out.push(text[at]);
            at += 1;
            continue;
        }
        let kept = |&c: &char| if c == '\n' { '\n' } else { ' ' };
        out.extend(text[at..end].iter().map(kept));
        at = end;
    }
    out
}

/// The end of the comment or literal that begins at `at`; `at` itself if none does.
fn literal_end(text: &[char], at: usize) -> usize {
    let next = |n: usize| text.get(at + n).copied().unwrap_or('\0');
    let starts_word = at == 0 || !(text[at - 1].is_alphanumeric() || text[at - 1] == '_');
    match (text[at], next(1)) {
        ('/', '/') => find(text, at, |rest| rest[0] == '\n'),
        ('/', '*') => block_comment_end(text, at),
        ('"', _) => string_end(text, at + 1),
        ('b' | 'c', '"') if starts_word => string_end(text, at + 2),
        ('r', '"' | '#') if starts_word => raw_string_end(text, at, at + 1),
        ('b' | 'c', 'r') if starts_word && matches!(next(2), '"' | '#') => {
            raw_string_end(text, at, at + 2)
        }
        ('\'', '\\') => find(text, at + 3, |rest| rest[0] == '\'') + 1,
        ('\'', _) if next(2) == '\'' => at + 3,
        _ => at,
    }
    .min(text.len())
}

fn find(text: &[char], from: usize, is_end: impl Fn(&[char]) -> bool) -> usize {
    (from..text.len()).find(|&i| is_end(&text[i..])).unwrap_or(text.len())
}

fn block_comment_end(text: &[char], at: usize) -> usize {
    let mut depth = 0usize;
    let mut i = at;
    while i < text.len() {
        match (text[i], text.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn string_end(text: &[char], inside: usize) -> usize {
    let mut i = inside;
    while i < text.len() {
        match text[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    i
}

/// The end of `r"..."`, `r#"..."#`; a raw identifier such as `r#fn` is not a string.
fn raw_string_end(text: &[char], at: usize, hashes_at: usize) -> usize {
    let hashes = text[hashes_at..].iter().take_while(|&&c| c == '#').count();
    let quote = hashes_at + hashes;
    if text.get(quote) != Some(&'"') {
        return at;
    }
    let closes = |rest: &[char]| {
        rest[0] == '"' && rest[1..].iter().take_while(|&&c| c == '#').count() >= hashes
    };
    find(text, quote + 1, closes) + 1 + hashes
}

/// First and last lines of items under `#[test]` or a `cfg` that asks for test, loom or fuzzing.
fn test_regions(code: &[char]) -> Vec<(usize, usize)> {
    let mut regions = Vec::new();
    let mut at = 0;
    while let Some(start) = (at..code.len()).find(|&i| code[i] == '#' && is_next(code, i, '[')) {
        let end = matching(code, start + 1, '[', ']');
        at = end.min(code.len());
        if asks_for_test(&code[start..at]) {
            let last = item_end(code, at);
            regions.push((line_of(code, start), line_of(code, last)));
            at = last;
        }
    }
    regions
}

fn is_next(code: &[char], at: usize, c: char) -> bool {
    code.get(at + 1) == Some(&c)
}

fn asks_for_test(attribute: &[char]) -> bool {
    let text: String = attribute.iter().filter(|c| !c.is_whitespace()).collect();
    let positive = text.replace("not(loom)", "").replace("not(test)", "");
    let names = |word| words(&positive).any(|w| w == word);
    text == "#[test]" || (positive.contains("cfg(") && (names("test") || names("loom")))
}

/// The end of the next item: its `;` or the brace that closes its body.
fn item_end(code: &[char], from: usize) -> usize {
    let mut depth = 0i32;
    for i in from..code.len() {
        match code[i] {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return i,
            '{' if depth == 0 => return matching(code, i, '{', '}'),
            _ => {}
        }
    }
    code.len()
}

/// The index after the bracket that closes the one at `at`.
fn matching(code: &[char], at: usize, open: char, close: char) -> usize {
    let mut depth = 0i32;
    for (i, &c) in code.iter().enumerate().skip(at) {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return i + 1;
            }
        }
    }
    code.len()
}

fn line_of(code: &[char], at: usize) -> usize {
    code[..at.min(code.len())].iter().filter(|&&c| c == '\n').count()
}

fn functions(code: &[char]) -> Vec<Function> {
    let mut found = Vec::new();
    let mut line = 0;
    for i in 0..code.len() {
        if code[i] == '\n' {
            line += 1;
        }
        if !(code[i] == 'f' && is_keyword(code, i, "fn")) {
            continue;
        }
        let name: String = code[i + 2..]
            .iter()
            .skip_while(|c| c.is_whitespace())
            .take_while(|c| c.is_alphanumeric() || **c == '_')
            .collect();
        let end = item_end(code, i);
        let has_body = end > 0 && code.get(end - 1) == Some(&'}');
        if !name.is_empty() && has_body {
            let line_count = code[i..end].iter().filter(|&&c| c == '\n').count() + 1;
            found.push(Function { name, line, line_count });
        }
    }
    found
}

fn is_keyword(code: &[char], at: usize, keyword: &str) -> bool {
    let is_name = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_');
    let before = at.checked_sub(1).and_then(|i| code.get(i));
    code[at..].iter().copied().take(keyword.len()).eq(keyword.chars())
        && !is_name(before)
        && !is_name(code.get(at + keyword.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("x.rs", text).code.join("\n")
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        for (text, want) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("x(\"a\\\"b\") y", "x(      ) y"),
            ("r#\"a\"b\"# z", "         z"),
            ("br\"x\" b\"y\" z", "           z"),
            ("'a' '\\n' '\\'' 'x: &'static z", "              'x: &'static z"),
            ("r#fn x", "r#fn x"),
            ("\"open", "     "),
        ] {
            assert_eq!(code(text), want, "{text}");
        }
    }

    #[test]
    fn test_code_is_marked() {
        let text = "fn live() {}\n#[cfg(test)]\nmod tests {\n  fn t() { }\n}\nfn more() {\n}\n\
                    #[cfg(not(test))]\nfn live_too() {}\n#[cfg(all(test, not(loom)))]\nmod u;\n\
                    #[test]\nfn t() {}\n";
        let source = Source::new("crates/a/src/x.rs", text);
        let names: Vec<&str> = source.functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["live", "more", "live_too"]);
        let marked: Vec<usize> = source.test_lines().map(|(line, _)| line).collect();
        assert_eq!(marked, [1, 2, 3, 4, 9, 10, 11, 12]);
        assert!(Source::new("crates/a/tests/x.rs", "a\nb").is_test.iter().all(|&test| test));
    }

    #[test]
    fn functions_are_measured() {
        let text = "trait T { fn no_body(&self) -> [u8; 3]; }\n\
                    fn two(\n  a: u8,\n) -> u8 {\n  { a }\n}\nlet f: fn(u8) = g;\n";
        let source = Source::new("x.rs", text);
        assert_eq!(source.functions, [Function { name: "two".into(), line: 1, line_count: 5 }]);
    }

    #[test]
    fn odd_text_does_not_panic() {
        for text in ["", "#[", "#[cfg(test)]", "fn", "'", "'\\", "/*", "r#", "\"\\", "}}}", "fn x("]
        {
            let _ = Source::new("x.rs", text);
        }
    }
}
