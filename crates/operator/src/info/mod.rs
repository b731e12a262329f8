//! INFO: the state of the server, in sections of lines `name:value`.
//!
//! Names and order are Valkey's, so that clients and dashboards find them. A figure for something
//! that this server does not have (a fork, for example) is still true: it is mostly zero.
//!
//! Not here: sections with counters (`counts`), those that describe (`state`, `replication`), the
//! one that looks at keys (`keysizes`).

mod counts;
mod keysizes;
mod replication;
mod state;

pub use counts::{calls, cpu_seconds};

use pantala_base::UnixMs;
use pantala_base::clock::unix_ms;
use pantala_commands::{Call, Category, Command, CommandResult, Flags, Group, Lane, Stop};
use pantala_engine::stats::info_table::{InfoName, InfoTable, InfoValue};

use crate::Operator;
use pantala_replication::catch_up;

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::new("INFO", info, Group::Server)
    .arity(-1)
    .flags(Flags::LOADING.union(Flags::STALE))
    .categories(&[Category::Dangerous])
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
    .syntax("[section [section ...]]")
    .summary("Tells what the server knows of itself, by section.")];

/// A table being filled.
pub(super) struct Page {
    table: InfoTable,
    /// The time of the figures.
    now: UnixMs,
}

impl Page {
    fn new(now: UnixMs) -> Page {
        Page { table: InfoTable::default(), now }
    }

    /// One field.
    fn line(&mut self, name: impl Into<InfoName>, value: impl Into<InfoValue>) {
        self.table.add(name, value);
    }

    /// Fields with the same value.
    fn each(&mut self, names: &[&'static str], value: impl Into<InfoValue>) {
        let value = value.into();
        for name in names {
            self.line(*name, value.clone());
        }
    }
}

/// Where a section is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SectionVisibility {
    /// By plain INFO, too.
    Always,
    /// By `all` and `everything`.
    InAll,
    /// By `everything`.
    InEverything,
    /// Only by its name.
    ByName,
}

/// One section.
struct Section {
    name: &'static str,
    title: &'static str,
    shown: SectionVisibility,
    write: Write,
}

/// What a section is written from.
enum Write {
    /// From figures at hand.
    Figures(fn(&Operator, &mut Page)),
    /// From a look at keys, which takes a while if there are many.
    Look(fn(&mut Call<'_, '_>, &mut Page)),
}

const fn section(
    name: &'static str,
    title: &'static str,
    shown: SectionVisibility,
    write: fn(&Operator, &mut Page),
) -> Section {
    Section { name, title, shown, write: Write::Figures(write) }
}

const SECTIONS: [Section; 20] = [
    section("server", "Server", SectionVisibility::Always, state::server),
    section("tls", "TLS", SectionVisibility::InAll, state::tls),
    section("clients", "Clients", SectionVisibility::Always, state::clients),
    section("memory", "Memory", SectionVisibility::Always, state::memory),
    section("persistence", "Persistence", SectionVisibility::Always, state::persistence),
    section("stats", "Stats", SectionVisibility::Always, counts::stats),
    section("replication", "Replication", SectionVisibility::Always, replication::replication),
    section("cpu", "CPU", SectionVisibility::Always, counts::cpu),
    section("modules", "Modules", SectionVisibility::Always, |_, _| {}),
    section("commandstats", "Commandstats", SectionVisibility::InAll, counts::commands),
    section("errorstats", "Errorstats", SectionVisibility::Always, counts::errors),
    section("latencystats", "Latencystats", SectionVisibility::InAll, counts::latencies),
    section("cluster", "Cluster", SectionVisibility::Always, state::cluster),
    section("cluster_info", "Cluster Info", SectionVisibility::InAll, state::cluster_info),
    section("scriptingengines", "Scripting Engines", SectionVisibility::InAll, state::engines),
    section("keyspace", "Keyspace", SectionVisibility::Always, counts::keyspace),
    Section {
        name: "keysizes",
        title: "Keysizes",
        shown: SectionVisibility::InEverything,
        write: Write::Look(keysizes::write),
    },
    section("pantala", "Pantala", SectionVisibility::InEverything, state::pantala),
    section("journal", "Journal", SectionVisibility::InEverything, state::journal),
    section("debug", "Debug", SectionVisibility::ByName, counts::debug),
];

fn info(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    let wanted: Vec<bool> =
        SECTIONS.iter().map(|section| is_wanted(section, &call.args[1..])).collect();
    let looks = |section: &Section| matches!(section.write, Write::Look(_));
    if call.lane == Lane::Worker
        && SECTIONS.iter().zip(&wanted).any(|(section, wanted)| *wanted && looks(section))
        && keysizes::takes_long(operator)
    {
        return Err(Stop::Lane);
    }
    if SECTIONS.iter().zip(&wanted).any(|(one, wanted)| *wanted && one.name == "replication") {
        catch_up(call)?;
    }
    let mut page = Page::new(call.now());
    for (section, _) in SECTIONS.iter().zip(wanted).filter(|(_, wanted)| *wanted) {
        page.table.begin_section(section.title);
        match section.write {
            Write::Figures(write) => write(operator, &mut page),
            Write::Look(write) => write(call, &mut page),
        }
    }
    call.reply.verbatim(b"txt", page.table.to_string().as_bytes());
    Ok(())
}

/// All sections that need no look at keys.
pub fn figures(operator: &Operator) -> InfoTable {
    let mut page = Page::new(unix_ms());
    for section in &SECTIONS {
        if let Write::Figures(write) = section.write {
            page.table.begin_section(section.title);
            write(operator, &mut page);
        }
    }
    page.table
}

/// The section `persistence`.
pub fn persistence(operator: &Operator) -> InfoTable {
    let mut page = Page::new(unix_ms());
    page.table.begin_section("Persistence");
    state::persistence(operator, &mut page);
    page.table
}

fn is_wanted(section: &Section, words: &[&[u8]]) -> bool {
    if words.is_empty() {
        return section.shown == SectionVisibility::Always;
    }
    words.iter().any(|word| {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        is(section.name)
            || (is("everything") && section.shown <= SectionVisibility::InEverything)
            || (is("all") && section.shown <= SectionVisibility::InAll)
            || (is("default") && section.shown == SectionVisibility::Always)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_chosen_by_name_and_by_group() {
        let chosen = |words: &[&str]| -> Vec<&str> {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let chosen = SECTIONS.iter().filter(|section| is_wanted(section, &words));
            chosen.map(|section| section.name).collect()
        };
        assert_eq!(chosen(&["CPU", "server", "cpu", "none"]), ["server", "cpu"]);
        assert_eq!(chosen(&["everything"]).len(), SECTIONS.len() - 1);
        assert_eq!(chosen(&["all"]).len(), SECTIONS.len() - 4);
        assert_eq!(chosen(&[]), chosen(&["default"]));
        assert_eq!(chosen(&[""]), [""; 0]);
    }
}
