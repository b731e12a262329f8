//! The manual page pantala(1), in man(7)'s macros.
//!
//! Tests: `./test packages` has groff and lintian read it.

use std::fmt::Write;

use super::{FLAG_FILE, OTHER_FLAGS, TOOLS, acting};
use crate::kind::Kind;
use crate::row::{ChangeTime, Row, SWITCHES, SettingGroup};

const BEGIN: &str = r#".SH NAME
pantala \- in-memory data store
.SH SYNOPSIS
.B pantala
.RI [ FILE " | " \- ]
.RI [ \-\-name=value " ...]"
.SH DESCRIPTION
Pantala keeps data in memory and serves it over the protocols of Redis and Memcached, on every core
of the machine. Without arguments it listens on port 6379 and keeps its snapshots in the present
directory.
.PP
Each setting has one name and four ways in. Stronger first: a flag
.RB ( \-\-port=7000 ", " "\-\-port 7000" ;
a switch may stand alone, or with
.B no
before it:
.BR \-\-noprotected_mode ),
a line of a flag file, a variable
.RB ( PANTALA_port=7000 ),
a line of the configuration file
.I FILE
.RB ( "port 7000" ),
which may be one of Redis or Valkey;
.B \-
reads it from standard input. In names \- and _ are the same.
"#;

const END: &str = r#".SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
End the server, after a snapshot if there are save points
.RB ( shutdown\-on\-sigterm ,
.BR shutdown\-on\-sigint ).
A second SIGINT ends it at once.
.TP
.B SIGHUP
Reads certificates and keys anew.
.SH ENVIRONMENT
.TP
.BI PANTALA_ NAME
A setting;
.BI DFLY_ NAME
means the same.
.TP
.BR NOTIFY_SOCKET ", " WATCHDOG_USEC ", " WATCHDOG_PID
Of systemd, see
.BR supervised .
.SH EXIT STATUS
0 when the server has ended as it was told, 1 when it could not start or an end had to be forced.
.SH FILES
.TP
.I /etc/pantala/pantala.conf
The configuration file of packages.
.TP
.I /var/lib/pantala
The directory of data of packages.
.SH EXAMPLES
.nf
pantala \-\-port=7000 \-\-maxmemory=2gb \-\-maxmemory\-policy allkeys\-lfu
pantala /etc/redis/redis.conf \-\-dir /srv/pantala
PANTALA_requirepass=secret pantala
.fi
"#;

/// The page.
pub(super) fn page() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text =
        String::from(".\\\" Written by `cargo xtask docs` from the rows in crates/settings.\n");
    let _ = writeln!(text, ".TH PANTALA 1 \"\" \"Pantala {version}\" \"User Commands\"");
    text.push_str(BEGIN);
    text.push_str(".SH TOOLS\n");
    for (tool, follows, doc) in TOOLS {
        entry(&mut text, &format!("\\fBpantala {tool}\\fR \\fI{follows}\\fR"), &prose(doc));
    }
    text.push_str(".SH OPTIONS\n");
    for (flag, doc) in OTHER_FLAGS {
        entry(&mut text, &format!("\\fB\\-\\-{flag}\\fR"), &prose(doc));
    }
    let (flag, doc) = FLAG_FILE;
    entry(&mut text, &format!("\\fB\\-\\-{flag}\\fR=\\fIFILE\\fR"), &prose(doc));
    for switch in &SWITCHES {
        let doc = format!("The same as {} {}.", switch.target, switch.on);
        entry(&mut text, &format!("\\fB\\-\\-{}\\fR", name(switch.name)), &prose(&doc));
    }
    text.push_str(".SH SETTINGS\nThose marked\n.I live\nCONFIG SET changes, too.\n");
    for group in SettingGroup::ALL {
        let mut rows = acting().filter(|row| row.group == group).peekable();
        if rows.peek().is_some() {
            let _ = writeln!(text, ".SS {}", group.title());
            rows.for_each(|row| setting(&mut text, row));
        }
    }
    text.push_str(END);
    text
}

fn setting(text: &mut String, row: &Row) {
    let default = match row.default {
        "" => String::new(),
        default => format!(" (default \\fB{}\\fR)", escaped(default)),
    };
    let live = if row.change == ChangeTime::Live { ", live" } else { "" };
    let tag = format!("\\fB{}\\fR{default}{live}", name(row.name));
    let mut about = prose(row.doc);
    if !matches!(row.kind, Kind::Text) {
        let _ = write!(about, "\nAllowed: {}.", escaped(&row.kind.allowed()));
    }
    entry(text, &tag, &about);
}

fn entry(text: &mut String, tag: &str, about: &str) {
    let _ = write!(text, ".TP\n{tag}\n{about}\n");
}

/// A name whose hyphens are those of the keyboard.
fn name(name: &str) -> String {
    name.replace('-', "\\-")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// A line of text: no macro at its begin, and what stands in backticks bold.
fn prose(text: &str) -> String {
    let mut line = String::new();
    for (index, part) in escaped(text).split('`').enumerate() {
        match index % 2 {
            0 => line.push_str(part),
            _ => line.extend(["\\fB", part, "\\fR"]),
        }
    }
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}
