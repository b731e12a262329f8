//! CONFIG REWRITE: the configuration file, written anew.

use std::fs::read_to_string;
use std::io;
use std::path::Path;

use pantala_commands::{Call, ClientError, CommandResult};
use pantala_durability::whole_file;
use pantala_settings::{SavedUser, Settings};

use crate::{Operator, acl};

/// Writes the settings in force to the configuration file.
pub(super) fn rewrite(call: &mut Call<'_, '_>) -> CommandResult {
    rewrite_in(call, false)
}

/// Writes the file anew; `says_all`: with a line for every setting.
pub(crate) fn rewrite_in(call: &mut Call<'_, '_>, says_all: bool) -> CommandResult {
    let operator = Operator::of(call);
    let Some(file) = &operator.engine.settings.file else {
        let none = "ERR The server is running without a config file";
        return Err(ClientError::text(none).into());
    };
    let settings = operator.engine.settings.current();
    let users = acl::lines_to_keep(&operator.engine.acl.users(), &settings);
    rewrite_file(file, &settings, (&users, says_all)).map_err(|trouble| {
        tracing::warn!(%trouble, "CONFIG REWRITE failed");
        ClientError::new(format!("ERR Rewriting config file: {trouble}"))
    })?;
    call.reply.ok();
    Ok(())
}

/// Replaces the configuration file by its new text.
fn rewrite_file(
    file: &Path,
    settings: &Settings,
    (users, says_all): (&[SavedUser], bool),
) -> io::Result<()> {
    let old = match read_to_string(file) {
        Ok(text) => Some(text),
        Err(trouble) if trouble.kind() == io::ErrorKind::NotFound => None,
        Err(trouble) => return Err(trouble),
    };
    let text = match says_all {
        true => settings.rewrite_all(old.as_deref(), users),
        false => settings.rewrite(old.as_deref(), users),
    };
    whole_file::replace(file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let own = format!("pantala-rewrite-{}", std::process::id());
        let directory = std::env::temp_dir().join(own);
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        let file = directory.join("x.conf");
        std::fs::write(&file, "# kept\ntimeout 5\n").expect("writable");
        let settings = Settings::defaults().with("timeout", "7").expect("allowed");
        rewrite_file(&file, &settings, (&[], false)).expect("replaced");
        assert_eq!(read_to_string(&file).expect("there"), "# kept\ntimeout 7\n");
        assert_eq!(std::fs::read_dir(&directory).expect("there").count(), 1, "no leftovers");
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
