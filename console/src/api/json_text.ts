// JSON text with a line for each part. It is parted into tokens and never made anew from values: a
// number too long for a double, 1.0, or a field that stands twice would come out as another text.
// Tests: tests/unit/json_text.test.ts.

/** A string, a mark, or what stands between them: a number, true, false, null. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const STEP = '  ';
/** What is deeper is indented no further: a text of brackets alone would grow by its square. */
const MAX_INDENTED_DEPTH = 100;

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The same tokens with line breaks and blanks; throws `SyntaxError` when it is no JSON. */
export function indented(text: string): string {
  JSON.parse(text);
  const parts: string[] = [];
  let depth = 0;
  let before = '';
  const newLine = () => `\n${STEP.repeat(Math.min(depth, MAX_INDENTED_DEPTH))}`;
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === '}' || token === ']';
    const isInEmpty = closes && (before === '{' || before === '[');
    if (closes) depth -= 1;
    if (before === ':') parts.push(' ');
    else if (before === ',' || ((closes || before === '{' || before === '[') && !isInEmpty)) {
      parts.push(newLine());
    }
    parts.push(token);
    if (token === '{' || token === '[') depth += 1;
    before = token;
  }
  return parts.join('');
}
