//! The file in which a node keeps what it knows of its cluster (`cluster-config-file`), in Valkey's
//! form: the lines of CLUSTER NODES with more about each address, and a last line of variables.
//!
//! ```text
//! ID IP:PORT@BUS,HOSTNAME,tls-port=N,shard-id=ID FLAGS PRIMARY PING PONG EPOCH LINK SLOT ...
//! vars currentEpoch N lastVoteEpoch N
//! ```
//!
//! Not here: reading and writing it. Tests: at the foot; `fuzz_nodes_file`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pantala_base::crc::SLOT_COUNT;

use crate::membership::{Member, Membership, OpenSlot};
use crate::node::{Endpoint, Health, NodeId};
use crate::slots::SlotRange;

/// The text of the file.
pub fn print(all: &Membership) -> String {
    let mut text = String::new();
    for (id, member) in all.members() {
        let address = print_address(member);
        let myself = if *id == all.my_id() { "myself," } else { "" };
        let role = if member.primary.is_some() { "slave" } else { "master" };
        let primary = member.primary.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let epoch = member.epoch;
        let failed = if member.health == Health::Failed { ",fail" } else { "" };
        // Writing to a string cannot fail.
        _ = write!(text, "{id} {address} {myself}{role}{failed} {primary} 0 0 {epoch} connected");
        member.slots.ranges().iter().for_each(|range| _ = write!(text, " {range}"));
        if *id == all.my_id() {
            all.open_slots()
                .iter()
                .for_each(|(slot, open)| _ = write!(text, " {}", open_slot(*slot, open)));
        }
        text.push('\n');
    }
    _ = writeln!(text, "vars currentEpoch {} lastVoteEpoch 0", all.epoch());
    text
}

/// Where a member is, and its shard: `IP:PORT@BUS,HOSTNAME,NAME=VALUE,...`.
pub fn print_address(member: &Member) -> String {
    let Endpoint { ip, hostname, port, tls_port, bus_port } = &member.endpoint;
    let mut text = format!("{ip}:{port}@{bus_port},{hostname},tls-port={tls_port}");
    if !member.zone.is_empty() {
        _ = write!(text, ",availability-zone={}", member.zone);
    }
    _ = write!(text, ",shard-id={}", member.shard);
    text
}

/// The word of a slot that is being moved, here and in CLUSTER NODES.
pub fn open_slot(slot: u16, open: &OpenSlot) -> String {
    match open {
        OpenSlot::LeavingTo(id) => format!("[{slot}->-{id}]"),
        OpenSlot::ArrivingFrom(id) => format!("[{slot}-<-{id}]"),
    }
}

/// Reads the text of the file.
///
/// # Errors
/// What is wrong, with the number of the line.
pub fn parse(text: &str) -> Result<Membership, String> {
    let (mut members, mut open) = (BTreeMap::new(), BTreeMap::new());
    let (mut my_id, mut epoch) = (None, 0);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: &str| format!("line {}: {what}", at + 1);
        if let Some(words) = line.strip_prefix("vars ") {
            epoch = parse_epoch(words).ok_or_else(|| wrong("currentEpoch is no number"))?;
            continue;
        }
        let parsed = parse_line(line).map_err(|what| wrong(&what))?;
        if parsed.is_me && my_id.replace(parsed.id).is_some() {
            return Err(wrong("two nodes are called myself"));
        }
        open.extend(parsed.open.into_iter().filter(|_| parsed.is_me));
        if members.insert(parsed.id, parsed.member).is_some() {
            return Err(wrong("this node was named before"));
        }
    }
    let my_id = my_id.ok_or("no node is called myself")?;
    Membership::new(my_id, epoch, members, open).ok_or_else(|| "a slot has two owners".into())
}

/// The current epoch in the line of variables.
fn parse_epoch(words: &str) -> Option<u64> {
    let mut words = words.split_ascii_whitespace();
    words.find(|word| *word == "currentEpoch")?;
    words.next()?.parse().ok()
}

/// A line about a node.
struct ParsedLine {
    id: NodeId,
    is_me: bool,
    member: Member,
    open: Vec<(u16, OpenSlot)>,
}

fn parse_line(line: &str) -> Result<ParsedLine, String> {
    let mut words = line.split_ascii_whitespace();
    let mut next = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
    let id = parse_id(next("the id")?)?;
    let address = next("the address")?;
    let flags = next("the list of flags")?;
    let primary = match next("the primary")? {
        "-" => None,
        primary => Some(parse_id(primary)?),
    };
    next("the time of the ping")?;
    next("the time of the pong")?;
    let epoch = next("the epoch")?.parse().map_err(|_| "the epoch is no number")?;
    next("the state of the link")?;
    let mut member = Member { primary, epoch, ..Member::new(NodeId::of_name(&id.to_string())) };
    parse_address(address, &mut member)?;
    let mut open = Vec::new();
    for word in words {
        match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            Some(word) => open.push(parse_open(word)?),
            None => {
                let range = parse_range(word)?;
                member.slots.extend(range.first..=range.last);
            }
        }
    }
    if member.primary.is_some() && !member.slots.is_empty() {
        return Err("a replica has no slots".into());
    }
    let is_me = flags.split(',').any(|flag| flag == "myself");
    Ok(ParsedLine { id, is_me, member, open })
}

fn parse_id(word: &str) -> Result<NodeId, String> {
    NodeId::parse(word.as_bytes()).ok_or_else(|| format!("'{word}' is no id of a node"))
}

/// Reads what [`print_address`] has written.
///
/// # Errors
/// What is wrong.
pub fn parse_address(word: &str, member: &mut Member) -> Result<(), String> {
    let mut parts = word.split(',');
    let place = parts.next().unwrap_or_default();
    let wrong = || format!("'{place}' is no address");
    let (host, bus) = place.split_once('@').ok_or_else(wrong)?;
    let (ip, port) = host.rsplit_once(':').ok_or_else(wrong)?;
    member.endpoint = Endpoint {
        ip: ip.to_owned(),
        hostname: parts.next().unwrap_or_default().to_owned(),
        port: port.parse().map_err(|_| wrong())?,
        tls_port: 0,
        bus_port: bus.parse().map_err(|_| wrong())?,
    };
    for part in parts {
        match part.split_once('=') {
            Some(("tls-port", port)) => {
                member.endpoint.tls_port = port.parse().map_err(|_| wrong())?;
            }
            // The port without TLS, where the first one is with it.
            Some(("tcp-port", port)) => {
                let port = port.parse().map_err(|_| wrong())?;
                member.endpoint.tls_port = std::mem::replace(&mut member.endpoint.port, port);
            }
            Some(("shard-id", id)) => member.shard = parse_id(id)?,
            Some(("availability-zone", zone)) => member.zone = zone.to_owned(),
            // Newer versions may tell more.
            _ => {}
        }
    }
    Ok(())
}

fn parse_slot(word: &str) -> Option<u16> {
    word.parse().ok().filter(|slot| *slot < SLOT_COUNT)
}

/// Reads a slot or a range of slots.
///
/// # Errors
/// It is none.
pub fn parse_range(word: &str) -> Result<SlotRange, String> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let range = parse_slot(first).zip(parse_slot(last));
    let range = range.and_then(|(first, last)| SlotRange::new(first, last));
    range.ok_or_else(|| format!("'{word}' is no range of slots"))
}

/// Reads `SLOT->-ID` or `SLOT-<-ID`.
fn parse_open(word: &str) -> Result<(u16, OpenSlot), String> {
    let wrong = || format!("'[{word}]' is no slot that moves");
    let (slot, open) = match (word.split_once("->-"), word.split_once("-<-")) {
        (Some((slot, id)), _) => (slot, OpenSlot::LeavingTo(parse_id(id)?)),
        (None, Some((slot, id))) => (slot, OpenSlot::ArrivingFrom(parse_id(id)?)),
        (None, None) => return Err(wrong()),
    };
    Ok((parse_slot(slot).ok_or_else(wrong)?, open))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::three;

    #[test]
    fn a_membership_is_read_back_as_it_was() {
        let mut all = three();
        let b = NodeId::of_name("b").to_string();
        all.begin_to_move_out(5, &b).expect("it can");
        all.begin_to_move_in(105, &b).expect("it can");
        all.bump_epoch();
        let text = print(&all);
        assert_eq!(parse(&text), Ok(all));
        assert!(text.contains(&format!("[5->-{b}] [105-<-{b}]\n")), "{text}");
        assert!(text.ends_with("vars currentEpoch 1 lastVoteEpoch 0\n"));
    }

    #[test]
    fn files_of_valkey_are_read() {
        let text = "820288163c347361fd3445d7f4e94c57dd476065 \
            10.0.0.1:0@31001,h.example,tcp-port=6380,nodename=x,\
            shard-id=aba1b0461c04bdd9d9eb4fc28c293a6768b75b30 myself,master - 0 0 5 connected \
            0-9 11\n\
            ffd2ef1a9f1c0bb42fbfe5bdd1b0d8d6d66f7dd0 [::1]:6381@16381 slave,nofailover \
            820288163c347361fd3445d7f4e94c57dd476065 1 2 5 connected\n\
            vars currentEpoch 7 lastVoteEpoch 3\n";
        let all = parse(text).expect("it can be read");
        let me = all.me();
        assert_eq!((all.epoch(), me.epoch, me.slots.count()), (7, 5, 11));
        assert_eq!((me.endpoint.port, me.endpoint.hostname.as_str()), (6380, "h.example"));
        let other = all.members().values().find(|member| member.primary.is_some());
        assert_eq!(other.map(|member| member.endpoint.ip.as_str()), Some("[::1]"));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        let id = NodeId::of_name("a");
        let line = |rest: &str| format!("{id} :1@2 myself,master - 0 0 0 connected{rest}\n");
        let refused = |text: &str| parse(text).expect_err("it is wrong");
        assert_eq!(refused(""), "no node is called myself");
        assert_eq!(refused("x"), "line 1: 'x' is no id of a node");
        assert_eq!(refused(&line(" 5-3")), "line 1: '5-3' is no range of slots");
        assert_eq!(refused(&line(" 16384")), "line 1: '16384' is no range of slots");
        assert_eq!(refused(&line(" [5->x]")), "line 1: '[5->x]' is no slot that moves");
        assert_eq!(refused(&line("").repeat(2)), "line 2: two nodes are called myself");
        assert_eq!(refused(&line("").replace(":1@2", "1")), "line 1: '1' is no address");
        let other = line(" 7").replace("myself,", "").replace(&id.to_string(), &"b".repeat(40));
        assert_eq!(refused(&(line(" 7") + &other)), "a slot has two owners");
    }
}
