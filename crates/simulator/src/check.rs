//! The checks made after each act.

use std::collections::BTreeSet;

use pantala_psync::{History, Phase};

use super::history::{Log, Model};
use super::world::{HistoryTurn, Outcome, World};

impl World {
    /// Checks all that must hold of this node.
    pub fn check(&mut self, number: usize) -> Outcome {
        self.look_at_failover(number)?;
        let Some(node) = &self.places[number].node else { return Ok(()) };
        let now = node.history();
        self.see(number, now);
        self.write_down(number, now)?;
        self.check_words(number)?;
        if now.is_kept { self.check_data(number, now) } else { Ok(()) }
    }

    /// Notices that the node's history has another name now.
    fn see(&mut self, number: usize, now: History) {
        let place = &mut self.places[number];
        let before = place.seen.replace(now).filter(|before| before.id != now.id);
        match (before, place.turn) {
            (Some(before), HistoryTurn::GoneOn) => place.second = Some((before.id, before.end)),
            (Some(_), HistoryTurn::Copied) => {
                place.second = None;
                place.confirmed.clear();
            }
            (None, HistoryTurn::Copied) if now.second.is_none() => place.second = None,
            (None, _) => {}
        }
        if before.is_some() {
            place.writes = None;
        }
    }

    /// Copies what a primary has added to its history into the history's log.
    fn write_down(&mut self, number: usize, now: History) -> Outcome {
        let is_primary = self.is_primary(number);
        let place = &mut self.places[number];
        let Some(node) = place.node.as_ref().filter(|_| now.is_kept) else { return Ok(()) };
        let name = now.id.as_str();
        if is_primary && place.writes.is_none() {
            let before =
                place.second.and_then(|(id, end)| Some((self.logs.get(id.as_str())?, end)));
            let log = match (before, place.cut.take()) {
                (Some((log, end)), _) => log.branch(end)?,
                (None, Some(data)) => Log::new(now.first, data),
                (None, None) => return Err("nobody knows where a history begins".into()),
            };
            self.logs.insert(name.to_owned(), log);
            place.writes = Some(now.id);
        }
        let Some(log) = self.logs.get_mut(name).filter(|_| place.writes == Some(now.id)) else {
            return Ok(());
        };
        let mut more = Vec::new();
        let stream = &node.replication().downstream.stream;
        stream.read(log.end(), usize::MAX, &mut more).map_err(|why| format!("{why:?}"))?;
        log.append(&more)?;
        if !is_primary {
            // The history's writer is a replica now: the log is complete.
            place.writes = None;
        }
        Ok(())
    }

    /// Checks that no replica has acknowledged more than it has.
    fn check_words(&mut self, number: usize) -> Outcome {
        for pipe in &self.pipes {
            let ((replica, ..), (primary, _, index)) = (pipe.replica, pipe.primary);
            if pipe.is_left != (false, false) || (replica != number && primary != number) {
                continue;
            }
            let end = self.places[replica].node.as_ref().map(|node| node.history().end);
            let node = self.places[primary].node.as_mut();
            let told = node.and_then(|node| node.replica(index));
            let told = told.filter(|replica| replica.phase() == Phase::Online);
            let told = told.map(|replica| replica.acknowledged().position);
            if let (Some(told), Some(end)) = (told, end)
                && told > end
            {
                return Err(format!("{replica} has told {primary} {told}, and it has {end}"));
            }
        }
        Ok(())
    }

    /// Checks that the node's data is what its history says.
    fn check_data(&mut self, number: usize, now: History) -> Outcome {
        let is_primary = self.is_primary(number);
        let place = &mut self.places[number];
        let Some(node) = place.node.as_ref().filter(|node| !node.is_loading()) else {
            return Ok(());
        };
        let looked = Some((now.id, now.end, is_primary));
        if place.looked == looked {
            return Ok(());
        }
        place.looked = looked;
        let data = node.data();
        check_sum(&data)?;
        let tokens = data.get(0, b"w").map(|value| value.items.clone()).unwrap_or_default();
        let tokens: BTreeSet<String> =
            tokens.into_iter().map(|token| String::from_utf8_lossy(&token).into_owned()).collect();
        if let Some(lost) = place.confirmed.difference(&tokens).next() {
            return Err(format!("{lost} was confirmed, and {number} has lost it"));
        }
        for token in tokens {
            self.had.entry(token).or_default().insert(number);
        }
        if is_primary {
            // A primary's data may be ahead of its stream: `World::turn` checks it.
            return Ok(());
        }
        let log = self.logs.get(now.id.as_str()).ok_or("a history that nobody has written")?;
        let mut bytes = Vec::new();
        let from = place.compared.max(now.first).min(now.end);
        node.replication()
            .downstream
            .stream
            .read(from, usize::MAX, &mut bytes)
            .map_err(|why| format!("{number} does not have what it says to keep: {why:?}"))?;
        place.compared = now.end;
        let written = log.bytes(from, now.end).unwrap_or_default();
        if written != bytes {
            let (has, written) = (bytes.escape_ascii(), written.escape_ascii());
            return Err(format!(
                "from {from} {number} has {has}, and what is written is {written}"
            ));
        }
        match log.digest_at(now.end) {
            None => Err(format!("{number} is at {}, within a step", now.end)),
            Some(digest) if digest == data.digest() => Ok(()),
            Some(_) => {
                let written = log.branch(now.end)?;
                Err(format!("at {} {number}: {}", now.end, data.difference(written.last())))
            }
        }
    }
}

/// Checks that transfers between accounts have left their sum as it is.
fn check_sum(data: &Model) -> Outcome {
    for db in 0..2 {
        let sum: i64 = (0..4)
            .filter_map(|account| data.get(db, format!("a{account}").as_bytes()))
            .filter_map(|value| String::from_utf8_lossy(&value.items[0]).parse::<i64>().ok())
            .sum();
        if sum != 0 {
            return Err(format!("accounts have {sum} together"));
        }
    }
    Ok(())
}
