//! Scripts that show what the libraries provide.

use pantala_protocol::Version;

use crate::fake::Bench;

/// Lua helpers: `show` writes any value as text, tables in the order of `next`; `all` writes
/// several.
const PRELUDE: &str = r#"
local function show(v, d)
  local t = type(v)
  d = d or 0
  if t == 'table' then
    if d > 40 then return '{deep}' end
    local o = {}
    for k, x in pairs(v) do o[#o+1] = show(k, d+1)..'='..show(x, d+1) end
    return '{'..table.concat(o, ',')..'}'
  elseif t == 'number' then return string.format('%.17g', v)
  elseif t == 'string' then return string.format('%q', v)
  else return tostring(v) end
end
local function all(...)
  local o = {}
  for i = 1, select('#', ...) do o[i] = show((select(i, ...))) end
  return table.concat(o, ' ; ')
end
"#;

/// The string that `script` returns for `args`, or its error's text after "ERR ".
pub fn answer(bench: &mut Bench, script: &str, args: &[&[u8]]) -> Vec<u8> {
    // On one line, so that errors name line 1.
    let script = format!("{} {script}", PRELUDE.replace('\n', " "));
    bench.version = Version::Resp2;
    let Some(reply) = bench.eval(&script, &[], args) else { return b"aborted".to_vec() };
    match &reply[..] {
        [b'-', error @ ..] => {
            let error = String::from_utf8_lossy(error);
            error.split(" script: on @").next().unwrap_or_default().trim_end().into()
        }
        [b'$', bulk @ ..] => {
            let head_len = bulk.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            bulk[head_len..bulk.len() - 2].to_vec()
        }
        other => other.to_vec(),
    }
}
