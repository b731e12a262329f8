//! FUNCTION LOAD and RESTORE: a library's code is run to learn what it registers.

use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, CommandResult, error};
use pantala_protocol::{Reply, Version};
use pantala_rdb::functions::{self, FunctionFault};
use pantala_scripting::{
    Abort, ErrorText, Header, Libraries, Library, LogLevel, ScriptHost, Vm, VmLimits,
};

use super::store::{Kept, keep};
use crate::engine::Engine;

/// The longest time that a library's code may run while it is loaded, in milliseconds.
pub const MOST_MS: u64 = 500;
/// The most memory that a library may use while it is loaded, in bytes.
const MOST_BYTES: usize = 64 << 20;

const BAD_POLICY: ClientError = ClientError::text(
    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
);

pub(super) fn load(call: &mut Call<'_, '_>) -> CommandResult {
    let Some((code, options)) = call.args[2..].split_last() else {
        return Err(error::wrong_arity(&call.command.full_name()).into());
    };
    for option in options {
        if !is_word(option, "REPLACE") {
            let text = [b"ERR Unknown option given: ", *option].concat();
            return Err(ClientError::bytes(text).into());
        }
    }
    let replace = !options.is_empty();
    let engine = Engine::of(call);
    let header = Header::parse(code).map_err(ClientError::bytes)?;
    if !replace {
        // Reported before the code runs, as the reference does.
        engine.functions.current().check_absent(&header.name).map_err(ClientError::bytes)?;
    }
    let library = examine(header, code).map_err(ClientError::bytes)?;
    super::hold_order(call)?;
    Engine::of(call)
        .change_functions(|libraries| libraries.with(&library, replace, keep))
        .map_err(ClientError::bytes)?;
    call.record_as_it_came();
    call.reply.bulk(&library.name);
    Ok(())
}

pub(super) fn restore(call: &mut Call<'_, '_>) -> CommandResult {
    let (flushes, replace) = match &call.args[3..] {
        [] => (false, false),
        [word] if is_word(word, "APPEND") => (false, false),
        [word] if is_word(word, "REPLACE") => (false, true),
        [word] if is_word(word, "FLUSH") => (true, false),
        [_] => return Err(BAD_POLICY.into()),
        _ => return Err(error::subcommand_syntax("FUNCTION", call.args[1]).into()),
    };
    let codes = functions::read(call.args[2], call.rdb_versions(), call.most_string_bytes())
        .map_err(told)?;
    let libraries = examine_all(&codes).map_err(ClientError::bytes)?;
    let change = |now: &Libraries<Kept>| match flushes {
        true => Libraries::default().merged(&libraries, false, keep),
        false => now.merged(&libraries, replace, keep),
    };
    super::hold_order(call)?;
    Engine::of(call).change_functions(change).map_err(ClientError::bytes)?;
    // In the version that Redis 7.0 reads.
    let mut payload = Vec::new();
    functions::write(codes.iter().map(Vec::as_slice), &mut payload);
    let words: Vec<&[u8]> = [&call.args[..2], &[&payload], &call.args[3..]].concat();
    call.record_as(&words);
    call.reply.ok();
    Ok(())
}

/// Adds the libraries of these codes; with `replaces`, in the place of those with the same names.
///
/// # Errors
/// The text of the error: one of the codes is refused, and none is loaded.
pub fn load_libraries(engine: &Engine, codes: &[Vec<u8>], replaces: bool) -> Result<(), ErrorText> {
    let libraries = examine_all(codes)?;
    engine.change_functions(|now: &Libraries<Kept>| now.merged(&libraries, replaces, keep))
}

/// The libraries of these codes.
///
/// # Errors
/// The text of the error: one of the codes is refused.
pub fn libraries_of(codes: &[Vec<u8>]) -> Result<Libraries<Kept>, ErrorText> {
    Libraries::default().merged(&examine_all(codes)?, false, keep)
}

fn examine_all(codes: &[Vec<u8>]) -> Result<Vec<Arc<Library>>, ErrorText> {
    let examined = codes.iter().map(|code| examine(Header::parse(code)?, code));
    examined.collect()
}

fn told(fault: FunctionFault) -> ClientError {
    ClientError::text(match fault {
        FunctionFault::Seal => "ERR DUMP payload version or checksum are wrong",
        FunctionFault::BeforeRelease => "ERR Pre-GA function format not supported",
        FunctionFault::NotAFunction => "ERR given type is not a function",
        FunctionFault::Code => "ERR Failed loading library payload",
    })
}

/// Runs a library's code, to learn what it registers.
fn examine(header: Header, code: &[u8]) -> Result<Arc<Library>, ErrorText> {
    let limits = VmLimits { memory_bytes: MOST_BYTES, ..VmLimits::default() };
    let until_us = monotonic_us() + MOST_MS * 1000;
    let mut host = LibraryLoad { until_us };
    let registered =
        Vm::new(limits).load_library(code, &mut host).map_err(|error| match host.until_us {
            0 => b"ERR Error registering functions: ERR FUNCTION LOAD timeout".to_vec(),
            _ => error,
        })?;
    Library::new(header, code, registered).map(Arc::new)
}

/// The server, as a library sees it while it is loaded.
struct LibraryLoad {
    /// Until when it may run (monotonic); 0 once its time was over.
    until_us: u64,
}

impl ScriptHost for LibraryLoad {
    fn call(&mut self, _: &[&[u8]], version: Version, reply: &mut Vec<u8>) -> Result<(), Abort> {
        Reply::new(reply, version).error("ERR can not run commands while a library is loaded");
        Ok(())
    }

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, ErrorText> {
        Ok(false)
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        let message = String::from_utf8_lossy(message);
        match level {
            LogLevel::Debug | LogLevel::Verbose => {
                tracing::debug!(target: "pantala::script", "{message}")
            }
            LogLevel::Notice => tracing::info!(target: "pantala::script", "{message}"),
            LogLevel::Warning => tracing::warn!(target: "pantala::script", "{message}"),
        }
    }

    fn tell(&mut self, _: bool, _: bool) {}

    fn tick(&mut self, _: u64) -> Result<(), Abort> {
        if monotonic_us() < self.until_us {
            return Ok(());
        }
        self.until_us = 0;
        Err(Abort)
    }
}
