//! Shell completions of the command line: flags, and the values of those that have few.
//!
//! Tests: `./test packages` has each shell read its file, and bash and fish complete.

use std::fmt::Write;

use super::{FLAG_FILE, OTHER_FLAGS, TOOLS, ValueCompletion, acting};
use crate::row::{Row, SWITCHES};

const NOTE: &str = "# Written by `cargo xtask docs` from the rows in crates/settings.\n";

const BASH_BEGIN: &str = r#"
# The value of `--flag=value`, where bash cuts at `=`, and of `--flag value`.
_pantala() {
    local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]}
    [ "$word" != = ] || word=
    [ "$flag" != = ] || flag=${COMP_WORDS[COMP_CWORD - 2]}
    COMPREPLY=()
    case $flag in
"#;

const BASH_END: &str = r#"        *)
            if [[ $word = -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$_pantala_flags" -- "$word")
                [ ${#COMPREPLY[@]} != 1 ] || [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace
            elif [ "$COMP_CWORD" = 1 ]; then
                mapfile -t COMPREPLY < <(compgen -W "$_pantala_tools" -- "$word"
                    compgen -f -- "$word")
                compopt -o filenames
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$word")
                compopt -o filenames
            fi
            ;;
    esac
}

complete -F _pantala pantala
"#;

/// For bash.
pub(super) fn bash() -> String {
    let mut text = format!("# Completion of pantala for bash.\n{NOTE}");
    let tools: Vec<&str> = TOOLS.iter().map(|tool| tool.0).collect();
    let _ = write!(text, "\n_pantala_tools=\"{}\"\n_pantala_flags=\"\n", tools.join(" "));
    let settings = acting().map(|row| format!("--{}=", row.name));
    let others = OTHER_FLAGS.iter().map(|flag| format!("--{}", flag.0));
    let switches = SWITCHES.iter().map(|switch| format!("--{}", switch.name));
    let flag_file = std::iter::once(format!("--{}=", FLAG_FILE.0));
    for flag in settings.chain(others).chain(switches).chain(flag_file) {
        let _ = writeln!(text, "{flag}");
    }
    text.push_str("\"\n");
    text.push_str(BASH_BEGIN);
    for row in acting() {
        let generates = match ValueCompletion::of(row) {
            ValueCompletion::Words(words) => format!("-W \"{}\"", words.join(" ")),
            ValueCompletion::File => "-f".into(),
            ValueCompletion::Directory => "-d".into(),
            ValueCompletion::Anything => continue,
        };
        bash_case(&mut text, row.name, &generates);
    }
    bash_case(&mut text, FLAG_FILE.0, "-f");
    text.push_str(BASH_END);
    text
}

fn bash_case(text: &mut String, name: &str, generates: &str) {
    let _ = write!(
        text,
        "        --{name})\n            \
         mapfile -t COMPREPLY < <(compgen {generates} -- \"$word\")\n            ;;\n"
    );
}

/// For zsh.
pub(super) fn zsh() -> String {
    let mut text = format!("#compdef pantala\n# Completion of pantala for zsh.\n{NOTE}\n");
    text.push_str("_arguments -S \\\n");
    for row in acting() {
        let value = match ValueCompletion::of(row) {
            ValueCompletion::Words(words) => format!("({})", words.join(" ")),
            ValueCompletion::File => "_files".into(),
            ValueCompletion::Directory => "_files -/".into(),
            ValueCompletion::Anything => String::new(),
        };
        let doc = in_brackets(row.doc);
        let _ = writeln!(text, "    '--{}=[{doc}]:value:{value}' \\", row.name);
    }
    for switch in &SWITCHES {
        let _ = writeln!(text, "    '--{}[{}]' \\", switch.name, says(switch.target, switch.on));
    }
    let (flag, doc) = FLAG_FILE;
    let _ = writeln!(text, "    '--{flag}=[{}]:file:_files' \\", in_brackets(doc));
    for (flag, doc) in OTHER_FLAGS {
        let _ = writeln!(text, "    '(- *)--{flag}[{}]' \\", in_brackets(doc));
    }
    let tools: Vec<String> =
        TOOLS.iter().map(|tool| format!("{}\\:\"{}\"", tool.0, in_brackets(tool.2))).collect();
    let tools = tools.join(" ");
    let first = format!("_alternative \"tools:tool:(({tools}))\" \"files:file:_files\"");
    let _ = writeln!(text, "    '1:tool or configuration file:{{{first}}}' \\");
    text.push_str("    '*:file:_files'\n");
    text
}

/// Text inside `[...]` inside single quotes.
fn in_brackets(doc: &str) -> String {
    let mut text = String::with_capacity(doc.len());
    for letter in doc.chars() {
        match letter {
            '\'' => text.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => text.extend(['\\', letter]),
            '`' | '"' => {}
            _ => text.push(letter),
        }
    }
    text
}

/// For fish.
pub(super) fn fish() -> String {
    let mut text = format!("# Completion of pantala for fish.\n{NOTE}\n");
    for (tool, _, doc) in TOOLS {
        let doc = quoted(doc);
        let _ = writeln!(text, "complete -c pantala -n __fish_is_first_token -a {tool} -d {doc}");
    }
    for row in acting() {
        fish_setting(&mut text, row);
    }
    for switch in &SWITCHES {
        let doc = quoted(&says(switch.target, switch.on));
        let _ = writeln!(text, "complete -c pantala -l {} -f -d {doc}", switch.name);
    }
    let (flag, doc) = FLAG_FILE;
    let _ = writeln!(text, "complete -c pantala -l {flag} -r -F -d {}", quoted(doc));
    for (flag, doc) in OTHER_FLAGS {
        let _ = writeln!(text, "complete -c pantala -l {flag} -f -d {}", quoted(doc));
    }
    text
}

fn fish_setting(text: &mut String, row: &Row) {
    let value = match ValueCompletion::of(row) {
        ValueCompletion::Words(words) => format!("-x -a {}", quoted(&words.join(" "))),
        ValueCompletion::File => "-r -F".into(),
        ValueCompletion::Directory => "-x -a '(__fish_complete_directories)'".into(),
        ValueCompletion::Anything => "-x".into(),
    };
    let _ = writeln!(text, "complete -c pantala -l {} {value} -d {}", row.name, quoted(row.doc));
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('`', ""))
}

/// What a switch does.
fn says(target: &str, on: &str) -> String {
    format!("The same as {target} {on}.")
}
