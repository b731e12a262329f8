//! Questions to other nodes of the cluster, each over a connection of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_cluster::Endpoint;
use pantala_journal::resp::push_command;
use pantala_replication::replica::Primary;
use pantala_replication::replica::socket::{Socket, Tcp};
use pantala_settings::Settings;
use pantala_tls::certificates;

/// Asks a node: a command of these words, answered by a line or a short string within this time.
///
/// # Errors
/// It does not answer, or with an error.
pub fn ask(
    settings: &Settings,
    place: &Endpoint,
    words: &[&str],
    most: Duration,
) -> Result<String, String> {
    let tls = settings.tls_replication.then(|| certificates::connector(settings)).transpose()?;
    let network = Arc::new(Tcp { source: settings.bind_source_addr.clone() });
    let to = Primary { host: place.ip.clone(), port: place.port_for(settings.tls_replication) };
    let failed = |error: std::io::Error| error.to_string();
    let (mut socket, _end) = Socket::open(network, &to, most, tls.as_ref()).map_err(failed)?;
    let until = Instant::now() + most;
    if !settings.primaryauth.is_empty() {
        let (user, password) = (settings.primaryuser.as_str(), settings.primaryauth.as_str());
        match user {
            "" => exchange(&mut socket, &["AUTH", password], until)?,
            user => exchange(&mut socket, &["AUTH", user, password], until)?,
        };
    }
    exchange(&mut socket, words, until)
}

fn exchange(socket: &mut Socket, words: &[&str], until: Instant) -> Result<String, String> {
    let mut request = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    push_command(&mut request, &words);
    socket.send(&request).map_err(|error| error.to_string())?;
    let line = next_line(socket, until)?;
    match line.as_bytes().first() {
        Some(b'+' | b':') => Ok(line[1..].to_owned()),
        Some(b'$') if line != "$-1" => next_line(socket, until),
        Some(b'-') => Err(line[1..].to_owned()),
        _ => Err(format!("an answer that is not understood: {line}")),
    }
}

fn next_line(socket: &mut Socket, until: Instant) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    loop {
        if let Some(line) = socket.line().map_err(failed)? {
            return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        if Instant::now() >= until {
            return Err("it does not answer in time".into());
        }
        socket.fill().map_err(failed)?;
    }
}
