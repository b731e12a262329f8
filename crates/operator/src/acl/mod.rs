//! ACL: users and what they may do.
//!
//! | file | what |
//! |---|---|
//! | here | the rows; categories and passwords |
//! | `users` | SETUSER, GETUSER, DELUSER, LIST, USERS, DRYRUN |
//! | `log` | ACL LOG |
//! | `file` | LOAD, SAVE; users at the start, and in a rewritten configuration file |
//!
//! `pantala_acl` defines what rules mean. A change of users only puts a new set in force;
//! connections see it at their worker's next turn.
//!
//! Tests: compat/transcripts/acl, compat/clients/acl.py.

mod file;
mod log;
mod users;

use pantala_base::number::parse_i64;
use pantala_base::rng::fill_secret;
use pantala_commands::{
    Call, Category, ClientError, Command, CommandResult, Flags, Group, Handler, error, help,
};
use pantala_engine::Engine;
use pantala_settings::Settings;
use pantala_settings::field::ChannelDefault;

pub use file::{at_start, lines_to_keep};

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::container("ACL", Group::Server, SUBCOMMANDS)
    .since("6.0.0")
    .complexity("Depends on the subcommand.")
    .summary("Who may do what.")];

const ANY_TIME: Flags = Flags::LOADING.union(Flags::STALE).union(Flags::NOSCRIPT);
const ADMIN: Flags = ANY_TIME.union(Flags::ADMIN);
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const fn sub(name: &'static str, handler: Handler) -> Command {
    Command::new(name, handler, Group::Server).of("ACL").since("6.0.0")
}

/// In the order in which ACL HELP shows them.
const SUBCOMMANDS: &[Command] = &[
    sub("CAT", categories)
        .arity(-2)
        .flags(ANY_TIME)
        .complexity("O(1) since the categories and commands are a fixed set.")
        .syntax("[category]")
        .summary("Tells the categories of commands, or the commands of one."),
    sub("DELUSER", users::delete)
        .arity(-3)
        .flags(ADMIN)
        .tips(ALL_NODES)
        .secrets(all_but_name)
        .complexity("O(N) for N users.")
        .syntax("username [username ...]")
        .summary("Removes users, and closes their connections."),
    sub("DRYRUN", users::dry_run)
        .arity(-4)
        .flags(ADMIN)
        .since("7.0.0")
        .syntax("username command [arg ...]")
        .summary("Tells whether a user may run a command, without running it."),
    sub("GETUSER", users::get)
        .arity(3)
        .flags(ADMIN)
        .complexity("O(N) for N rules of the user.")
        .syntax("username")
        .summary("Tells a user's flags, passwords and rules."),
    sub("GENPASS", generate)
        .arity(-2)
        .flags(ANY_TIME)
        .syntax("[bits:int]")
        .summary("Makes up a password of 256 bits, or of as many as asked."),
    sub("LIST", users::list)
        .arity(2)
        .flags(ADMIN)
        .complexity("O(N) for N users.")
        .summary("Tells all users as lines of an ACL file."),
    sub("LOAD", file::load)
        .arity(2)
        .flags(ADMIN.union(Flags::LANE).union(Flags::OPERATOR))
        .complexity("O(N) for N users.")
        .summary("Reads the users from the ACL file, all or none."),
    sub("LOG", log::show)
        .arity(-2)
        .flags(ADMIN)
        .complexity("O(N) for N entries.")
        .syntax("[operation: count:int | RESET]")
        .summary("Tells the newest refusals, or forgets them."),
    sub("SAVE", file::save)
        .arity(2)
        .flags(ADMIN.union(Flags::LANE).union(Flags::OPERATOR))
        .tips(ALL_NODES)
        .complexity("O(N) for N users.")
        .summary("Writes the users to the ACL file."),
    sub("SETUSER", users::set)
        .arity(-3)
        .flags(ADMIN)
        .tips(ALL_NODES)
        .secrets(all_but_name)
        .complexity("O(N) for N rules.")
        .syntax("username [rule ...]")
        .summary("Makes a user, or changes its rules: all as given, or none."),
    sub("USERS", users::names)
        .arity(2)
        .flags(ADMIN)
        .complexity("O(N) for N users.")
        .summary("Tells the names of all users."),
    sub("WHOAMI", users::who_am_i)
        .arity(2)
        .flags(ANY_TIME)
        .summary("Tells the name of the connection's user."),
    sub("HELP", help)
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .summary("Tells what the subcommands do."),
];

/// Names and rules are secret.
fn all_but_name(_: &[&[u8]], at: usize) -> bool {
    at >= 2
}

/// The default channels of new users.
fn default_channels(settings: &Settings) -> pantala_acl::DefaultChannels {
    match settings.acl_pubsub_default {
        ChannelDefault::All => pantala_acl::DefaultChannels::All,
        ChannelDefault::None => pantala_acl::DefaultChannels::None,
    }
}

/// The error for a surplus argument.
fn too_many(call: &Call<'_, '_>) -> ClientError {
    error::subcommand_syntax("ACL", call.args[1])
}

fn categories(call: &mut Call<'_, '_>) -> CommandResult {
    match call.args {
        [_, _] => {
            call.reply.array(Category::ALL.len());
            Category::ALL.iter().for_each(|(_, name)| call.reply.bulk(name.as_bytes()));
        }
        [_, _, name] => {
            let unknown = || [b"ERR Unknown category '", *name, b"'"].concat();
            let category = Category::find(name).ok_or_else(|| ClientError::bytes(unknown()))?;
            let users = Engine::of(call).acl.users();
            let names: Vec<&str> = users
                .catalogue()
                .of_category(category)
                .map(|(_, entry)| entry.name.as_str())
                .filter(|name| !name.is_empty())
                .collect();
            call.reply.array(names.len());
            names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
        }
        _ => return Err(too_many(call).into()),
    }
    Ok(())
}

/// The bits of a generated password by default.
const USUAL_BITS: i64 = 256;
const MOST_BITS: i64 = 4096;

fn generate(call: &mut Call<'_, '_>) -> CommandResult {
    const RANGE: &str = "ERR ACL GENPASS argument must be the number of bits for the output \
        password, a positive number up to 4096";
    let bits = match call.args {
        [_, _] => USUAL_BITS,
        [_, _, bits] => parse_i64(bits).ok_or(error::NOT_INTEGER)?,
        _ => return Err(too_many(call).into()),
    };
    if !(1..=MOST_BITS).contains(&bits) {
        return Err(ClientError::text(RANGE).into());
    }
    let digits = usize::try_from(bits).unwrap_or_default().div_ceil(4);
    let mut secret = vec![0; digits.div_ceil(2)];
    if !fill_secret(&mut secret) {
        return Err(ClientError::text("ERR the system gives no random bytes").into());
    }
    let mut text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    call.reply.bulk(text.as_bytes());
    Ok(())
}
