//! Users in files: `aclfile`, read and written as a whole, and `user` lines of the configuration
//! file.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};

use pantala_acl::{SetUserError, Users};
use pantala_commands::{Call, ClientError, CommandResult};
use pantala_engine::Engine;
use pantala_settings::{SavedUser, Settings, UserLine};

use super::default_channels;
use pantala_durability::{place, whole_file};

const NO_FILE: ClientError = ClientError::text(
    "ERR This instance is not configured to use an ACL file. You may want to specify users via \
     the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration \
     file set) in order to store users in the configuration.",
);

/// The path of the ACL file, if there is one.
fn path(settings: &Settings) -> Option<PathBuf> {
    let file = Path::new(&settings.aclfile);
    (!settings.aclfile.is_empty()).then(|| place::beside_data(settings, file))
}

/// The users of the ACL file, in place of `users`.
fn loaded(users: &Users, settings: &Settings) -> Result<Users, Vec<u8>> {
    let name = &settings.aclfile;
    let path = path(settings).unwrap_or_default();
    let text = read(&path).map_err(|error| {
        let why = place::os_words(&error.to_string()).to_owned();
        format!("Error loading ACLs, opening file '{name}': {why}").into_bytes()
    })?;
    users.loaded(&text, name, default_channels(settings))
}

/// The text of a regular file; a pipe or a device might never end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?.file_type();
    match kind.is_file() || kind.is_dir() {
        true => std::fs::read(path),
        false => Err(io::Error::other("Not a file")),
    }
}

pub(super) fn load(call: &mut Call<'_, '_>) -> CommandResult {
    let engine = Engine::of(call);
    let settings = engine.settings.current();
    path(&settings).ok_or(NO_FILE)?;
    // Read before the users are locked: a disk may take its time.
    let fresh = loaded(&engine.acl.users(), &settings)
        .map_err(|errors| ClientError::bytes([b"ERR ", &errors[..]].concat()))?;
    let done: Result<(), Infallible> = engine.change_users(|users| Ok(fresh.in_place_of(users)));
    let Ok(()) = done;
    call.reply.ok();
    Ok(())
}

pub(super) fn save(call: &mut Call<'_, '_>) -> CommandResult {
    let settings = Engine::of(call).settings.current();
    let path = path(&settings).ok_or(NO_FILE)?;
    let text = Engine::of(call).acl.users().to_text();
    if let Err(error) = whole_file::replace(&path, &text) {
        tracing::warn!(%error, file = settings.aclfile, "ACL SAVE failed");
        return Err(ClientError::text(
            "ERR There was an error trying to save the ACLs. Please check the server logs for \
             more information",
        )
        .into());
    }
    call.reply.ok();
    Ok(())
}

/// The users that a server starts with.
///
/// # Errors
/// A text for the operator.
pub fn at_start(users: &Users, settings: &Settings) -> Result<Users, String> {
    if settings.aclfile.is_empty() {
        return configured(users, settings);
    }
    if let Some(line) = settings.user_lines.first() {
        return Err(format!(
            "{}: users stand either in the configuration file or in the ACL file ({})",
            line.origin, settings.aclfile
        ));
    }
    loaded(users, settings).map_err(|errors| String::from_utf8_lossy(&errors).into_owned())
}

/// Adds the users of the configuration file. Its line about the default user starts from the rights
/// of a new user: none.
fn configured(users: &Users, settings: &Settings) -> Result<Users, String> {
    let channels = default_channels(settings);
    let (mut users, mut named) = (users.clone(), BTreeSet::new());
    for UserLine { origin, name, rules } in &settings.user_lines {
        let wrong = |text: &[u8]| format!("{origin}: {}", String::from_utf8_lossy(text));
        if !named.insert(name) {
            return Err(wrong(
                b"Duplicate user found. A user can only be defined once in config files",
            ));
        }
        let rules: Vec<&[u8]> =
            [&b"reset"[..]].into_iter().chain(rules.iter().map(Vec::as_slice)).collect();
        users = users.with_rules(name, &rules, channels).map_err(|error| match error {
            SetUserError::Rule(rule, why) => {
                wrong(&[b"'", &rule[..], b"': ", why.text().as_bytes()].concat())
            }
            other => wrong(&other.text()),
        })?;
        if users.find(name).is_some_and(|user| !user.is_on()) {
            let name = String::from_utf8_lossy(name);
            tracing::info!("the user '{name}' is disabled: its rules have no 'on'");
        }
    }
    Ok(users)
}

/// The users for a rewritten configuration file: none if there is an ACL file.
pub fn lines_to_keep(users: &Users, settings: &Settings) -> Vec<SavedUser> {
    if !settings.aclfile.is_empty() {
        return Vec::new();
    }
    let implied = Users::new(users.catalogue().clone())
        .with_default_password(settings.requirepass.as_bytes());
    let kept = |user: &std::sync::Arc<pantala_acl::User>| {
        let text = user.describe();
        let rules = text.split(|byte| *byte == b' ').skip(2).map(<[u8]>::to_vec).collect();
        let is_implied = implied.find(user.name()).is_some_and(|same| same == user);
        SavedUser { name: user.name().to_vec(), rules, is_implied }
    };
    users.iter().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_not_read() {
        let why = read(Path::new("/dev/zero")).expect_err("a device");
        assert_eq!(why.to_string(), "Not a file");
        assert!(read(Path::new("/nosuch")).is_err());
        assert!(read(Path::new("/")).is_err());
    }

    #[test]
    fn a_user_is_defined_once_in_configuration_files() {
        let line = |name: &str, rules: &[&str]| UserLine {
            origin: "--user".into(),
            name: name.into(),
            rules: rules.iter().map(|rule| rule.as_bytes().to_vec()).collect(),
        };
        let registry = pantala_commands::Registry::new(crate::FAMILIES);
        let with = |lines: Vec<UserLine>| {
            let users = Users::new(std::sync::Arc::new(registry.catalogue()));
            let mut settings = Settings::defaults();
            settings.user_lines = lines;
            configured(&users, &settings)
        };
        let users = with(vec![line("default", &["on", "nopass"]), line("anna", &["on"])]);
        assert!(users.expect("they differ").find(b"anna").is_some());
        for name in ["default", "anna"] {
            let why = with(vec![line(name, &["on"]), line(name, &["off"])]).expect_err("twice");
            assert!(why.contains("Duplicate user found"), "{why}");
        }
    }
}
