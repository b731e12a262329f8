//! DEBUG MALLCTL and MALLCTL-STR: jemalloc's controls by their names, to read. What a control does
//! without a value (VOID) is done, too; none is set.

use std::ffi::CString;

use pantala_commands::{Call, ClientError, CommandResult};
use pantala_memory::control;

/// The name in the third place.
fn name(call: &Call<'_, '_>) -> Result<CString, ClientError> {
    CString::new(call.args[2]).map_err(|_| NO_CONTROL)
}

const NO_CONTROL: ClientError = ClientError::text("ERR No such file or directory");

pub(super) fn number(call: &mut Call<'_, '_>) -> CommandResult {
    let number = control::number(&name(call)?).ok_or(NO_CONTROL)?;
    call.reply.int(i64::try_from(number).unwrap_or(i64::MAX));
    Ok(())
}

pub(super) fn text(call: &mut Call<'_, '_>) -> CommandResult {
    let name = name(call)?;
    if call.args.len() > 3 {
        if !control::act(&name) {
            return Err(NO_CONTROL.into());
        }
        call.reply.ok();
        return Ok(());
    }
    let text = control::text(&name).ok_or(NO_CONTROL)?;
    call.reply.bulk(&text);
    Ok(())
}
