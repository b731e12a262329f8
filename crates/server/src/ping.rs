//! `pantala ping [ADDRESS]` tells whether a server serves clients: for health checks of containers,
//! and for scripts without a client.
//!
//! ADDRESS is HOST:PORT or the path of a Unix socket; without one it is 127.0.0.1 and the port in
//! `PANTALA_port`, else 6379. The status is 0 if the server serves, even if it asks for a password
//! first; 1 if it does not (it loads, it stops, it is absent).
//!
//! Not here: TLS. Tests: at the foot, and `tests/ping.rs`.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

/// The longest time for each of connecting, sending and reading.
const WAIT_MOST: Duration = Duration::from_secs(2);
/// Longer than the first line of any answer that counts.
const ANSWER_BYTES: usize = 512;
const PORT: &str = "6379";

/// Runs the tool, if the arguments begin with `ping`.
pub fn run(args: &[String], port: Option<&str>) -> Option<ExitCode> {
    let address = match args {
        [tool] if tool == "ping" => format!("127.0.0.1:{}", port.unwrap_or(PORT)),
        [tool, address] if tool == "ping" => address.clone(),
        [tool, ..] if tool == "ping" => {
            let _unread =
                writeln!(io::stderr(), "pantala: ping takes one address, HOST:PORT or a path");
            return Some(ExitCode::FAILURE);
        }
        _ => return None,
    };
    let answer = ask(&address).map_err(|error| error.to_string());
    Some(match answer {
        Ok(answer) if serves(&answer) => {
            let _reader_has_gone = writeln!(io::stdout(), "{answer}");
            ExitCode::SUCCESS
        }
        Ok(why) | Err(why) => {
            let _unread = writeln!(io::stderr(), "pantala: {address}: {why}");
            ExitCode::FAILURE
        }
    })
}

/// Whether this is the answer of a server that serves.
fn serves(answer: &str) -> bool {
    answer == "+PONG" || answer.starts_with("-NOAUTH ")
}

/// The first line of the server's answer to PING.
fn ask(address: &str) -> io::Result<String> {
    if address.contains('/') {
        let socket = UnixStream::connect(address)?;
        socket.set_read_timeout(Some(WAIT_MOST))?;
        socket.set_write_timeout(Some(WAIT_MOST))?;
        return ask_over(socket);
    }
    let socket = connect(address)?;
    socket.set_read_timeout(Some(WAIT_MOST))?;
    socket.set_write_timeout(Some(WAIT_MOST))?;
    ask_over(socket)
}

/// A connection to the first of a name's addresses that accepts one.
fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("no address");
    for one in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&one, WAIT_MOST) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ask_over(mut socket: impl Read + Write) -> io::Result<String> {
    socket.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    let (mut answer, mut length) = ([0; ANSWER_BYTES], 0);
    while length < answer.len() {
        let got = socket.read(&mut answer[length..])?;
        length += got;
        if let Some(end) = answer[..length].iter().position(|byte| *byte == b'\r') {
            return Ok(String::from_utf8_lossy(&answer[..end]).into_owned());
        }
        if got == 0 {
            return Err(io::Error::other("it closed the connection"));
        }
    }
    Err(io::Error::other("no answer to PING"))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A server that says this, in pieces.
    struct Says(VecDeque<&'static str>);

    impl Read for Says {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.pop_front().unwrap_or_default().as_bytes();
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    impl Write for Says {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_tells_whether_it_serves() {
        for (pieces, expected) in [
            (&["+PONG\r\n"][..], Some(true)),
            (&["+P", "ON", "G\r", "\n"], Some(true)),
            (&["-NOAUTH Authentication required.\r\n"], Some(true)),
            (&["-LOADING the data is being loaded\r\n"], Some(false)),
            (&["HTTP/1.1 400 Bad Request\r\n"], Some(false)),
            (&["+PON"], None),
            (&[], None),
        ] {
            let answer = ask_over(Says(pieces.iter().copied().collect())).ok();
            assert_eq!(answer.map(|line| serves(&line)), expected, "{pieces:?}");
        }
        let endless = VecDeque::from(vec!["0123456789abcdef"; 100]);
        assert!(ask_over(Says(endless)).is_err());
    }

    #[test]
    fn other_words_are_for_others() {
        assert!(run(&[], None).is_none());
        assert!(run(&["check".into(), "ping".into()], None).is_none());
        assert!(run(&["ping".into(), "a".into(), "b".into()], None).is_some());
    }
}
