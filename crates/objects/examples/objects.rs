//! Object storage by hand: `objects PLACE list|put NAME|get NAME|remove NAME`, with bytes on stdin
//! and stdout. For trying an endpoint, and for compat's test against emulators.

use std::io;
use std::process::ExitCode;

use pantala_objects::{BucketPlace, ObjectBucket};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.and_then(|runtime| {
        let handle = runtime.handle().clone();
        std::thread::scope(|scope| {
            let (done, until_done) = tokio::sync::oneshot::channel::<()>();
            let work = scope.spawn(move || {
                let outcome = work(&words, handle);
                drop(done);
                outcome
            });
            // Ends when the other thread drops its end.
            let _over = runtime.block_on(until_done);
            work.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("objects: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(words: &[&str], runtime: tokio::runtime::Handle) -> io::Result<()> {
    let [place, rest @ ..] = words else { return Err(io::Error::other("which place?")) };
    let bucket = ObjectBucket::open(&BucketPlace::parse(place)?, runtime)?;
    match rest {
        ["list"] => {
            for file in bucket.list()? {
                println!("{} {}", file.name, file.bytes);
            }
        }
        ["put", name] => {
            let mut upload = bucket.upload(name);
            io::copy(&mut io::stdin(), &mut upload)?;
            upload.finish()?;
        }
        ["drop", name] => {
            let mut upload = bucket.upload(name);
            io::copy(&mut io::stdin(), &mut upload)?;
        }
        ["get", name] => {
            io::copy(&mut bucket.download(name)?, &mut io::stdout())?;
        }
        ["remove", name] => bucket.remove(name)?,
        _ => return Err(io::Error::other("list, put, drop, get or remove?")),
    }
    Ok(())
}
