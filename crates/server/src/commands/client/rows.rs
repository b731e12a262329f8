//! The rows of CLIENT, AUTH, HELLO and RESET, in the order in which CLIENT HELP shows them.

use pantala_commands::{Command, Flags, Group, help};

use super::{greeting, others, tracking};

const fn sub(name: &'static str, handler: pantala_commands::Handler) -> Command {
    Command::new(name, handler, Group::Connection)
        .of("CLIENT")
        .flags(Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE))
}

/// Runs while a script runs too long: it touches nothing but its own connection.
const OWN: Flags = Flags::ALLOW_BUSY.and(Flags::REVERSIBLE);
/// Asks all workers, and waits for them.
const ASKS: Flags = Flags::LANE.and(Flags::OUTSIDE).and(Flags::OPERATOR);

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::new("AUTH", greeting::auth, Group::Connection)
        .arity(-2)
        .flags(GREETING)
        .secrets(greeting::is_auth_secret)
        .complexity("O(N) for a password of N bytes")
        .syntax("[username] password")
        .summary("Authenticates the connection."),
    Command::container("CLIENT", Group::Connection, CLIENT)
        .since("2.4.0")
        .complexity("Depends on subcommand.")
        .summary("About connections: this one, and all others."),
    Command::new("HELLO", greeting::hello, Group::Connection)
        .arity(-1)
        .flags(GREETING)
        .secrets(greeting::is_hello_secret)
        .since("6.0.0")
        .syntax("[arguments: protover:int [AUTH username password] [SETNAME clientname]]")
        .summary("Chooses the protocol version and tells about server and connection."),
    Command::new("RESET", greeting::reset, Group::Connection)
        .arity(1)
        .flags(GREETING.and(Flags::UNQUEUED).and(Flags::SUBSCRIBED))
        .since("6.2.0")
        .summary("Makes the connection as it was when it began."),
];

const GREETING: Flags = Flags::NOSCRIPT
    .and(Flags::LOADING)
    .and(Flags::STALE)
    .and(Flags::FAST)
    .and(Flags::NO_AUTH)
    .and(Flags::ALLOW_BUSY)
    .and(Flags::REVERSIBLE);

const CLIENT: &[Command] = &[
    sub("CACHING", tracking::caching)
        .arity(3)
        .flags(OWN)
        .since("6.0.0")
        .syntax("(mode: YES | NO)")
        .summary("Whether the keys of the next command are tracked."),
    sub("CAPA", super::capa)
        .arity(-3)
        .flags(OWN)
        .since("8.0.0")
        .syntax("capability [capability ...]")
        .summary("Says what the client is able to do; REDIRECT: it follows redirections."),
    sub("GETREDIR", tracking::getredir)
        .arity(2)
        .flags(OWN)
        .since("6.0.0")
        .summary("The connection that gets the messages of key tracking."),
    sub("GETNAME", super::getname)
        .arity(2)
        .flags(OWN)
        .since("2.6.9")
        .summary("The name of this connection."),
    sub("ID", super::id)
        .arity(2)
        .flags(OWN)
        .since("5.0.0")
        .summary("The number of this connection."),
    sub("INFO", others::info)
        .arity(2)
        .flags(ASKS)
        .tips(&["nondeterministic_output"])
        .since("6.2.0")
        .summary("All that is known of this connection, in one line."),
    sub("KILL", others::kill)
        .arity(-3)
        .flags(ASKS.and(Flags::ADMIN))
        .since("2.4.0")
        .complexity("O(N) for N connections")
        .syntax(KILL)
        .summary(
            "Closes connections: the one from an address, or all that LIST would show with these \
             filters; this one only with SKIPME NO.",
        ),
    sub("LIST", others::list)
        .arity(-2)
        .flags(ASKS.and(Flags::ADMIN))
        .tips(&["nondeterministic_output"])
        .since("2.4.0")
        .complexity("O(N) for N connections")
        .syntax(LIST)
        .summary(
            "All connections, or those that fit, one a line; NOT- before a filter negates it.",
        ),
    sub("UNPAUSE", others::unpause)
        .arity(2)
        .flags(Flags::ADMIN)
        .since("6.2.0")
        .complexity("O(N) for N paused connections")
        .summary("Ends a pause."),
    sub("PAUSE", others::pause)
        .arity(-3)
        .flags(Flags::ADMIN)
        .since("3.0.0")
        .syntax("timeout:int [mode: WRITE | ALL]")
        .summary("Holds back commands of all clients, or those that write, for milliseconds."),
    sub("REPLY", super::reply)
        .arity(3)
        .flags(OWN.and(Flags::NO_MULTI))
        .since("3.2.0")
        .syntax("(action: ON | OFF | SKIP)")
        .summary("Whether this connection wants replies; SKIP: not the next one."),
    sub("SETNAME", super::setname)
        .arity(3)
        .flags(OWN)
        .tips(TO_ALL)
        .since("2.6.9")
        .syntax("connection-name")
        .summary("Gives this connection a name."),
    sub("SETINFO", super::setinfo)
        .arity(4)
        .flags(OWN)
        .tips(TO_ALL)
        .since("7.2.0")
        .syntax("(attr: LIB-NAME libname | LIB-VER libver)")
        .summary("Names the library the client uses."),
    sub("UNBLOCK", others::unblock)
        .arity(-3)
        .flags(ASKS.and(Flags::ADMIN))
        .since("5.0.0")
        .complexity("O(N) for N connections")
        .syntax("client-id:int [unblock-type: TIMEOUT | ERROR]")
        .summary("Ends the waiting of a connection, as if its time were over or with an error."),
    sub("TRACKING", tracking::tracking)
        .arity(-3)
        .since("6.0.0")
        .syntax(
            "(status: ON | OFF) [REDIRECT client-id:int] [PREFIX prefix [PREFIX prefix ...]] \
             [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        )
        .summary("Whether the client is told when keys it has read change."),
    sub("TRACKINGINFO", tracking::trackinginfo)
        .arity(2)
        .since("6.2.0")
        .summary("How this connection tracks keys."),
    sub("NO-EVICT", super::no_evict)
        .arity(3)
        .flags(OWN.and(Flags::ADMIN))
        .since("7.0.0")
        .syntax("(enabled: ON | OFF)")
        .summary("Whether this connection is kept when connections need too much memory."),
    sub("NO-TOUCH", super::no_touch)
        .arity(3)
        .flags(OWN)
        .since("7.2.0")
        .syntax("(enabled: ON | OFF)")
        .summary("Whether the commands of this connection leave keys as cold as they are."),
    sub("IMPORT-SOURCE", super::import_source)
        .arity(3)
        .since("8.1.0")
        .syntax("(enabled: ON | OFF)")
        .summary("Whether this connection brings data of another server."),
    Command::new("HELP", help, Group::Connection)
        .of("CLIENT")
        .arity(2)
        .flags(Flags::LOADING.and(Flags::STALE))
        .since("5.0.0")
        .summary("Shows this text."),
];

const TO_ALL: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// The filters of CLIENT LIST.
const LIST: &str = "[TYPE (client-type: NORMAL | MASTER | REPLICA | PUBSUB)] \
    [ID client-id:int [client-id:int ...]] [USER username] [ADDR addr] [LADDR laddr] \
    [SKIPME (skipme: YES | NO)] [MAXAGE maxage:int] [NAME name] [IDLE idle:int] [FLAGS flags] \
    [LIB-NAME lib-name] [LIB-VER lib-ver] [DB db:int] [CAPA capa] [IP ip] \
    [NOT-TYPE (not-client-type: NORMAL | MASTER | REPLICA | PUBSUB)] \
    [NOT-ID not-client-id:int [not-client-id:int ...]] [NOT-USER not-username] \
    [NOT-ADDR not-addr] [NOT-LADDR not-laddr] [NOT-NAME not-name] [NOT-FLAGS not-flags] \
    [NOT-LIB-NAME not-lib-name] [NOT-LIB-VER not-lib-ver] [NOT-DB not-db:int] \
    [NOT-CAPA not-capa] [NOT-IP not-ip]";
/// Those of CLIENT KILL, and the address alone.
const KILL: &str = "(filter: old-format | (new-format: [ID client-id:int [client-id:int ...]] \
    | [TYPE (client-type: NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB)] \
    | [USER username] | [ADDR addr] | [LADDR laddr] | [SKIPME (skipme: YES | NO)] \
    | [MAXAGE maxage:int] | [NAME name] | [IDLE idle:int] | [FLAGS flags] | [LIB-NAME lib-name] \
    | [LIB-VER lib-ver] | [DB db:int] | [CAPA capa] | [IP ip] \
    | [NOT-TYPE (not-client-type: NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB)] \
    | [NOT-ID not-client-id:int [not-client-id:int ...]] | [NOT-USER not-username] \
    | [NOT-ADDR not-addr] | [NOT-LADDR not-laddr] | [NOT-NAME not-name] | [NOT-FLAGS not-flags] \
    | [NOT-LIB-NAME not-lib-name] | [NOT-LIB-VER not-lib-ver] | [NOT-DB not-db:int] \
    | [NOT-CAPA not-capa] | [NOT-IP not-ip]) ...)";
