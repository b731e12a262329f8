//! The filter words of CLIENT LIST and CLIENT KILL.

use pantala_acl::Users;
use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{ClientError, error};

use pantala_engine::clients::filter::{ClientFilter, ClientKind, ClientTraits};

/// The letters that CLIENT LIST shows as flags, here and in the reference.
const FLAGS: &[u8] = b"OSMPxbtRBdcuAUreTIiEN";
/// The letters that it shows as capabilities.
const CAPABILITIES: &[u8] = b"r";

/// Names that words may refer to.
pub struct FilterWords<'a> {
    /// The number of databases.
    pub databases: u32,
    /// The users.
    pub users: &'a Users,
}

/// Parses all words into a filter, which already knows the asking client.
pub fn parse(
    args: &[&[u8]],
    known: &FilterWords<'_>,
    mut filter: ClientFilter,
) -> Result<ClientFilter, ClientError> {
    let mut rest = args;
    while let [word, after @ ..] = rest {
        let is_not = word.len() > 4 && word[..4].eq_ignore_ascii_case(b"NOT-");
        let name = if is_not { &word[4..] } else { word };
        if is_word(name, "ID") {
            let (ids, after) = take_ids(after)?;
            let traits = if is_not { &mut filter.unwanted } else { &mut filter.wanted };
            traits.ids.get_or_insert_default().extend(ids);
            rest = after;
            continue;
        }
        let [value, after @ ..] = after else { return Err(error::SYNTAX) };
        let traits = if is_not { &mut filter.unwanted } else { &mut filter.wanted };
        let is_taken = take_text(traits, name, value)
            || take_checked(traits, name, value, known, is_not)?
            || (!is_not && take_plain(&mut filter, name, value)?);
        if !is_taken {
            return Err(error::SYNTAX);
        }
        rest = after;
    }
    Ok(filter)
}

/// Takes as many numbers as there are; returns the arguments after them.
fn take_ids<'a, 'b>(args: &'b [&'a [u8]]) -> Result<(Vec<u64>, &'b [&'a [u8]]), ClientError> {
    let mut ids = Vec::new();
    let mut rest = args;
    while let [text, after @ ..] = rest
        && let Some(id) = parse_i64(text)
    {
        if id < 1 {
            return Err(ClientError::text("ERR client-id should be greater than 0"));
        }
        ids.push(id.unsigned_abs());
        rest = after;
    }
    Ok((ids, rest))
}

/// Handles words whose value may be any text.
fn take_text(traits: &mut ClientTraits, name: &[u8], value: &[u8]) -> bool {
    let place = match name {
        _ if is_word(name, "ADDR") => &mut traits.address,
        _ if is_word(name, "LADDR") => &mut traits.local_address,
        _ if is_word(name, "NAME") => &mut traits.name,
        _ if is_word(name, "LIB-NAME") => &mut traits.lib_name,
        _ if is_word(name, "LIB-VER") => &mut traits.lib_version,
        _ if is_word(name, "IP") => &mut traits.ip,
        _ => return false,
    };
    *place = Some(value.to_vec());
    true
}

/// Handles words whose value must be known.
fn take_checked(
    traits: &mut ClientTraits,
    name: &[u8],
    value: &[u8],
    known: &FilterWords<'_>,
    is_not: bool,
) -> Result<bool, ClientError> {
    let text = String::from_utf8_lossy(value);
    let prefix = if is_not { "NOT-" } else { "" };
    if is_word(name, "TYPE") {
        let kind = ClientKind::from_name(value);
        let unknown = || ClientError::new(format!("ERR Unknown client type '{text}'"));
        traits.kind = Some(kind.ok_or_else(unknown)?);
    } else if is_word(name, "USER") {
        if known.users.find(value).is_none() {
            return Err(ClientError::new(format!("ERR No such user '{text}'")));
        }
        traits.user = Some(value.to_vec());
    } else if is_word(name, "FLAGS") {
        traits.flags = Some(take_letters(value, FLAGS, "flags", is_not)?);
    } else if is_word(name, "CAPA") {
        traits.capabilities = Some(take_letters(value, CAPABILITIES, "capa", is_not)?);
    } else if is_word(name, "DB") {
        let no_number =
            || ClientError::new(format!("ERR {prefix}DB is not an integer or out of range"));
        let number = parse_i64(value).ok_or_else(no_number)?;
        let db = u32::try_from(number).ok().filter(|db| *db < known.databases);
        traits.db = Some(db.ok_or_else(|| {
            let last = known.databases.saturating_sub(1);
            ClientError::new(format!("ERR {prefix}DB number should be between 0 and {last}"))
        })?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn take_letters(
    value: &[u8],
    known: &[u8],
    what: &str,
    is_not: bool,
) -> Result<Vec<u8>, ClientError> {
    if value.iter().all(|letter| known.contains(letter)) {
        return Ok(value.to_vec());
    }
    let filter = if is_not { format!("NOT-{}", what.to_uppercase()) } else { "provided".into() };
    let value = String::from_utf8_lossy(value);
    Err(ClientError::new(format!("ERR Unknown {what} found in the {filter} filter: {value}")))
}

/// Handles words without a `NOT-` form.
fn take_plain(filter: &mut ClientFilter, name: &[u8], value: &[u8]) -> Result<bool, ClientError> {
    if is_word(name, "SKIPME") {
        filter.skip_asker = match value {
            _ if is_word(value, "YES") => true,
            _ if is_word(value, "NO") => false,
            _ => return Err(error::SYNTAX),
        };
    } else if is_word(name, "MAXAGE") {
        filter.min_age_s = Some(take_seconds(value, "maxage")?);
    } else if is_word(name, "IDLE") {
        filter.min_idle_s = Some(take_seconds(value, "idle")?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn take_seconds(value: &[u8], what: &str) -> Result<u64, ClientError> {
    let no_number = || ClientError::new(format!("ERR {what} is not an integer or out of range"));
    match parse_i64(value).ok_or_else(no_number)? {
        seconds @ 1.. => Ok(seconds.unsigned_abs()),
        _ => Err(ClientError::new(format!("ERR {what} should be greater than 0"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn check(line: &str) -> Result<ClientFilter, String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let known = FilterWords { databases: 16, users: &Users::new(Arc::default()) };
        parse(&args, &known, ClientFilter::default())
            .map_err(|error| String::from_utf8_lossy(&error.0).into_owned())
    }

    #[test]
    fn takes_numbers_up_to_the_next_word() {
        let filter = check("ID 1 2 NOT-ID 3 name x").expect("the words are right");
        assert_eq!(filter.wanted.ids, Some(vec![1, 2]));
        assert_eq!(filter.unwanted.ids, Some(vec![3]));
        assert_eq!(filter.wanted.name, Some(b"x".to_vec()));
        assert_eq!(check("ID 1 foo").unwrap_err(), "ERR syntax error");
    }

    #[test]
    fn names_the_filter_that_is_wrong() {
        let flags = "ERR Unknown flags found in the NOT-FLAGS filter: ?N!";
        assert_eq!(check("NOT-FLAGS ?N!").unwrap_err(), flags);
        let capa = "ERR Unknown capa found in the provided filter: foo";
        assert_eq!(check("CAPA foo").unwrap_err(), capa);
        let db = "ERR NOT-DB number should be between 0 and 15";
        assert_eq!(check("NOT-DB 99").unwrap_err(), db);
        assert_eq!(check("NOT-MAXAGE 5").unwrap_err(), "ERR syntax error");
        assert_eq!(check("IDLE 0").unwrap_err(), "ERR idle should be greater than 0");
    }
}
