//! Rules as text.

/// Rules as text, one each.
pub(crate) type RuleTexts = Vec<Vec<u8>>;

/// Whether a word could not be written into a file as one word.
pub(crate) fn has_space(word: &[u8]) -> bool {
    word.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0x0b || *byte == 0)
}

/// Quotes a rule for use between parentheses, where quotes have a meaning and a closing parenthesis
/// at its end would end the selector.
pub(crate) fn quoted(rule: Vec<u8>) -> Vec<u8> {
    let has_quote = rule.iter().any(|byte| matches!(byte, b'"' | b'\''));
    if !has_quote && !rule.ends_with(b")") {
        return rule;
    }
    let mut text = vec![b'"'];
    for byte in rule {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
    text
}
