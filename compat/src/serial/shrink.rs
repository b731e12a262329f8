//! Finds the relevant part of a history, for people to read.

use crate::serial::check::{Done, Judgement, NEVER, judge};
use crate::serial::model::State;

/// The shortest history found that still has no valid order. Answers received after the moment at
/// which it broke count as lost, commands sent after it are removed, and so are reads that are no
/// part of the contradiction.
pub fn shortest(begin: &State, history: Vec<Vec<Done>>) -> Vec<Vec<Done>> {
    let mut moments: Vec<u64> = history.iter().flatten().map(|done| done.heard).collect();
    moments.retain(|moment| *moment != NEVER);
    moments.sort_unstable();
    // A broken history stays broken with more answers, so the first moment is found by bisection.
    let at = moments.partition_point(|moment| !is_broken(begin, &until(&history, *moment)));
    let Some(moment) = moments.get(at) else { return history };
    let mut short = until(&history, *moment);
    for client in 0..short.len() {
        for number in (0..short[client].len()).rev() {
            let done = short[client][number].clone();
            let is_droppable = done.act.only_reads() || done.answer.is_none();
            if is_droppable {
                short[client].remove(number);
                if !is_broken(begin, &short) {
                    short[client].insert(number, done);
                }
            }
        }
    }
    if is_broken(begin, &short) { short } else { history }
}

fn is_broken(begin: &State, history: &[Vec<Done>]) -> bool {
    matches!(judge(begin, history), Judgement::Broken(_))
}

/// The history as it was known at a moment.
fn until(history: &[Vec<Done>], moment: u64) -> Vec<Vec<Done>> {
    let known = |done: &Done| {
        let mut done = done.clone();
        if done.heard > moment {
            (done.answer, done.heard, done.is_excused) = (None, NEVER, false);
        }
        done
    };
    let sent =
        |client: &Vec<Done>| client.iter().filter(|done| done.sent <= moment).map(known).collect();
    history.iter().map(sent).collect()
}

/// A history by the time of sending, with a star before each command that could be put in order.
pub fn describe(begin: &State, history: &[Vec<Done>], farthest: &[usize]) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let zero = history.iter().flatten().map(|done| done.sent).min().unwrap_or(0);
    for (client, dones) in history.iter().enumerate() {
        for (number, done) in dones.iter().enumerate() {
            let star = if number < farthest[client] { '*' } else { ' ' };
            let words = done.act.words();
            let words: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
            let (heard, answer) = match &done.answer {
                Some(answer) => ((done.heard - zero).to_string(), crate::render::line(answer)),
                None => ("?".to_string(), "(lost)".to_string()),
            };
            let line = format!(
                "{star} client {client} db {} {:>9} .. {heard:>9} ns  {}  ->  {answer}",
                done.db,
                done.sent - zero,
                words.join(" "),
            );
            lines.push((done.sent, line));
        }
    }
    lines.sort();
    let mut text = String::from("no order of these commands explains the answers\nbegins with:\n");
    for (db, keys) in begin.values.iter().enumerate() {
        for (key, value) in keys.iter().enumerate() {
            if let Some(value) = value {
                text += &format!("  db {db} key:{key} = {}\n", value.escape_ascii());
            }
        }
        text += &of_other_types(begin, db);
    }
    for (_, line) in lines {
        text += &line;
        text.push('\n');
    }
    text
}

fn of_other_types(begin: &State, db: usize) -> String {
    let kinds = &begin.kinds[db];
    let mut text = String::new();
    for (list, elements) in kinds.lists.iter().enumerate().filter(|(_, held)| !held.is_empty()) {
        let elements: Vec<_> =
            elements.iter().map(|element| element.escape_ascii().to_string()).collect();
        text += &format!("  db {db} list:{list} = {}\n", elements.join(" "));
    }
    for (zset, members) in kinds.zsets.iter().enumerate().filter(|(_, held)| !held.is_empty()) {
        let pair = |(score, member): &(i64, Vec<u8>)| format!("{score} {}", member.escape_ascii());
        let members: Vec<_> = members.iter().map(pair).collect();
        text += &format!("  db {db} zset:{zset} = {}\n", members.join(", "));
    }
    for (stream, ids) in kinds.streams.iter().enumerate().filter(|(_, held)| !held.is_empty()) {
        text += &format!("  db {db} stream:{stream} = {ids:?}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial::model::{Act, bulk, ok};
    use crate::value::Value;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let done = |act, answer, sent, heard| {
            let (answer, is_excused) = (Some(answer), false);
            Done { db: 0, act, answer, sent, heard, is_excused }
        };
        let text = |value: &str| value.as_bytes().to_vec();
        let writer = vec![
            done(Act::Set(1, text("x")), ok(), 0, 5),
            done(Act::Set(0, text("a")), ok(), 6, 10),
            done(Act::Set(0, text("b")), ok(), 50, 60),
        ];
        let reader = vec![
            done(Act::Get(1), bulk(Some(text("x"))), 6, 8),
            done(Act::Get(0), Value::Nil, 20, 30),
            done(Act::Get(0), bulk(Some(text("b"))), 70, 80),
        ];
        let history = shortest(&State::default(), vec![writer, reader]);
        let left: Vec<usize> = history.iter().map(Vec::len).collect();
        assert_eq!(left, [2, 1], "{history:?}");
        let text = describe(&State::default(), &history, &[2, 0]);
        assert!(text.contains("GET key:0  ->  nil") && !text.contains("GET key:1"), "{text}");
    }
}
