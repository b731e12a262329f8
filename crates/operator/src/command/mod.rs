//! COMMAND: the command table, for clients. Everything here comes from the rows.
//!
//! Not here: COMMAND DOCS (`docs`).

pub mod absent;
mod docs;
pub mod lolwut;

use pantala_base::glob;
use pantala_commands::{
    Call, Category, ClientError, Command, CommandRef, CommandResult, Find, Flags, Group,
    KeyAccesses, KeyFlags, KeySpec, KeySpecStart, error, help, key_accesses, options::is_word,
};
use pantala_protocol::Reply;

const ANY_TIME: Flags = Flags::LOADING.union(Flags::STALE);
const CONNECTION: &[Category] = &[Category::Connection];
const UNORDERED: &[&str] = &["nondeterministic_output_order"];

const fn sub(name: &'static str, handler: pantala_commands::Handler, arity: i16) -> Command {
    Command::new(name, handler, Group::Server)
        .of("COMMAND")
        .arity(arity)
        .flags(ANY_TIME)
        .categories(CONNECTION)
        .since("2.8.13")
}

/// The rows of this family.
pub const ROWS: &[Command] = &[{
    let mut row = Command::new("COMMAND", all, Group::Server)
        .arity(-1)
        .flags(ANY_TIME)
        .categories(CONNECTION)
        .tips(UNORDERED)
        .since("2.8.13")
        .complexity("O(N) for N commands")
        .summary("Tells all commands there are.");
    row.subcommands = SUBCOMMANDS;
    row
}];

const SUBCOMMANDS: &[Command] = &[
    sub("COUNT", count, 2).summary("Tells how many commands there are."),
    sub("LIST", list, -2)
        .tips(UNORDERED)
        .since("7.0.0")
        .complexity("O(N) for N commands")
        .syntax("[filterby: FILTERBY (MODULE module-name | ACLCAT category | PATTERN pattern)]")
        .summary("Tells the names of commands."),
    sub("INFO", info, -2)
        .tips(UNORDERED)
        .complexity("O(N) for N commands")
        .syntax("[command-name [command-name ...]]")
        .summary("Tells arity, flags, keys and categories of commands."),
    sub("DOCS", docs::docs, -2)
        .tips(UNORDERED)
        .since("7.0.0")
        .complexity("O(N) for N commands")
        .syntax("[command-name [command-name ...]]")
        .summary("Tells what commands do and what arguments they take."),
    sub("GETKEYS", keys, -3)
        .complexity("O(N) for N arguments")
        .syntax("command [arg [arg ...]]")
        .summary("Tells which arguments of a command are keys."),
    sub("GETKEYSANDFLAGS", keys_and_flags, -3)
        .since("7.0.0")
        .complexity("O(N) for N arguments")
        .syntax("command [arg [arg ...]]")
        .summary("Tells which arguments of a command are keys, and what is done with them."),
    sub("HELP", help, 2).since("5.0.0").summary("Tells what the subcommands do."),
];

fn all(call: &mut Call<'_, '_>) -> CommandResult {
    if let Some(word) = call.args.get(1) {
        return Err(error::unknown_subcommand("COMMAND", word).into());
    }
    reply_all(call);
    Ok(())
}

fn reply_all(call: &mut Call<'_, '_>) {
    let rows = call.server.registry().callable();
    call.reply.array(rows.clone().count());
    for row in rows {
        reply_row(&mut call.reply, row);
    }
}

fn count(call: &mut Call<'_, '_>) -> CommandResult {
    let count = call.server.registry().callable().count();
    call.reply.int(count.cast_signed() as i64);
    Ok(())
}

fn info(call: &mut Call<'_, '_>) -> CommandResult {
    let names = &call.args[2..];
    if names.is_empty() {
        reply_all(call);
        return Ok(());
    }
    call.reply.array(names.len());
    for name in names {
        match call.server.registry().find_full(name) {
            Some(found) => reply_row(&mut call.reply, found.row),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn reply_row(reply: &mut Reply<'_>, row: &Command) {
    let (first, last, step) = row.key_range();
    reply.array(10);
    reply.bulk(row.full_name().as_bytes());
    reply.int(i64::from(row.arity));
    reply_words(reply, row.flags.names());
    reply.int(first as i64);
    reply.int(last as i64);
    reply.int(step as i64);
    let categories: Vec<String> =
        row.all_categories().iter().map(|category| format!("@{}", category.name())).collect();
    reply_words(reply, categories.iter().map(String::as_str));
    reply.set(row.tips.len());
    row.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(row.keys.len());
    row.keys.iter().for_each(|spec| reply_spec(reply, spec));
    reply.array(row.subcommands.len());
    row.subcommands.iter().for_each(|subcommand| reply_row(reply, subcommand));
}

/// Writes simple strings, as a set.
fn reply_words<'w>(reply: &mut Reply<'_>, words: impl Iterator<Item = &'w str>) {
    let words: Vec<&str> = words.collect();
    reply.set(words.len());
    words.iter().for_each(|word| reply.simple(word));
}

fn reply_spec(reply: &mut Reply<'_>, spec: &KeySpec) {
    reply.map(3);
    reply.bulk(b"flags");
    reply_words(reply, spec.flags.names());
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    match spec.begin {
        KeySpecStart::Index(index) => {
            reply.bulk(b"index");
            reply.bulk(b"spec");
            reply_numbers(reply, &[("index", index as i64)]);
        }
        KeySpecStart::Keyword(word, from) => {
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.int(from as i64);
        }
        KeySpecStart::Unknown => reply_unknown(reply),
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    match spec.find {
        Find::Range { last, step } => {
            reply.bulk(b"range");
            reply.bulk(b"spec");
            let numbers = [("lastkey", last as i64), ("keystep", step as i64), ("limit", 0)];
            reply_numbers(reply, &numbers);
        }
        Find::Unknown | Find::SortStore => reply_unknown(reply),
        Find::GeoStore(_) => {
            reply.bulk(b"range");
            reply.bulk(b"spec");
            reply_numbers(reply, &[("lastkey", 0), ("keystep", 1), ("limit", 0)]);
        }
        Find::Streams | Find::Listed => {
            reply.bulk(b"range");
            reply.bulk(b"spec");
            let limit = if spec.find == Find::Streams { 2 } else { 0 };
            reply_numbers(reply, &[("lastkey", -1), ("keystep", 1), ("limit", limit)]);
        }
        Find::Count { at, first, step } => {
            reply.bulk(b"keynum");
            reply.bulk(b"spec");
            let numbers =
                [("keynumidx", at as i64), ("firstkey", first as i64), ("keystep", step as i64)];
            reply_numbers(reply, &numbers);
        }
    }
}

fn reply_unknown(reply: &mut Reply<'_>) {
    reply.bulk(b"unknown");
    reply.bulk(b"spec");
    reply.map(0);
}

fn reply_numbers(reply: &mut Reply<'_>, numbers: &[(&str, i64)]) {
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.int(*number);
    }
}

/// The keys of the command in the arguments from the third on.
fn keyed(call: &Call<'_, '_>) -> Result<KeyAccesses, ClientError> {
    let args = &call.args[2..];
    let found = call.server.registry().resolve(args);
    let is_known = |found: &CommandRef| found.row.subcommands.is_empty() || args.len() == 1;
    let found = found.filter(is_known).ok_or(ClientError::text("ERR Invalid command specified"))?;
    if found.row.keys.iter().all(|spec| spec.flags == KeyFlags::NOT_KEY) {
        return Err(ClientError::text("ERR The command has no key arguments"));
    }
    if !found.row.accepts(args.len()) {
        let text = "ERR Invalid number of arguments specified for command";
        return Err(ClientError::text(text));
    }
    let accesses = key_accesses(found.row, args).unwrap_or_default();
    if accesses.is_empty() && !found.row.flags.intersects(Flags::NO_MANDATORY_KEYS) {
        return Err(ClientError::text("ERR Invalid arguments specified for command"));
    }
    Ok(accesses)
}

fn keys(call: &mut Call<'_, '_>) -> CommandResult {
    let accesses = keyed(call)?;
    call.reply.array(accesses.len());
    for access in accesses {
        call.reply.bulk(call.args[2 + access.position]);
    }
    Ok(())
}

fn keys_and_flags(call: &mut Call<'_, '_>) -> CommandResult {
    let accesses = keyed(call)?;
    let args = &call.args[2..];
    call.reply.array(accesses.len());
    for access in accesses {
        call.reply.array(2);
        call.reply.bulk(args[access.position]);
        reply_words(&mut call.reply, access.flags.names());
    }
    Ok(())
}

/// Which commands COMMAND LIST returns.
enum Filter<'a> {
    All,
    None,
    Category(&'a [u8]),
    Pattern(&'a [u8]),
}

impl Filter<'_> {
    fn parse<'a>(words: &[&'a [u8]]) -> Result<Filter<'a>, ClientError> {
        match words {
            [] => Ok(Filter::All),
            [by, kind, value] if is_word(by, "FILTERBY") => match kind {
                kind if is_word(kind, "MODULE") => Ok(Filter::None),
                kind if is_word(kind, "ACLCAT") => Ok(Filter::Category(value)),
                kind if is_word(kind, "PATTERN") => Ok(Filter::Pattern(value)),
                _ => Err(error::SYNTAX),
            },
            _ => Err(error::SYNTAX),
        }
    }

    fn accepts(&self, row: &Command, name: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::None => false,
            Filter::Category(wanted) => {
                Category::find(wanted).is_some_and(|one| row.all_categories().has(one))
            }
            Filter::Pattern(pattern) => glob::matches_nocase(pattern, name.as_bytes()),
        }
    }
}

fn list(call: &mut Call<'_, '_>) -> CommandResult {
    let filter = Filter::parse(&call.args[2..])?;
    let registry = call.server.registry();
    let rows = registry.callable().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    let named = rows.map(|row| (row, row.full_name()));
    let names: Vec<String> =
        named.filter(|(row, name)| filter.accepts(row, name)).map(|(_, name)| name).collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}
