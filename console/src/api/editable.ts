// A text as it can be edited in a field of the browser, and back. A field of several lines turns
// every CR LF and CR into LF, one of a single line drops both: what was not touched would be saved as
// something else. Tests: tests/unit/editable.test.ts.

export interface Editable {
  /** What the field is given. */
  shown: string;
  /** What is told beside the field. */
  hint?: string;
  /** The text for what the field holds; throws when that is no text. */
  restored(edited: string): string;
}

const ESCAPES: Record<string, string> = { '\\': '\\\\', '\r': '\\r', '\n': '\\n' };
const MEANT: Record<string, string> = { '\\': '\\', r: '\r', n: '\n' };

/** `long`: in a field of several lines. */
export function editable(text: string, long: boolean): Editable {
  const isKept = long ? !text.includes('\r') : !/[\r\n]/.test(text);
  if (isKept) return { shown: text, restored: (edited) => edited };
  if (long && !/\r(?!\n)|(?<!\r)\n/.test(text)) {
    return {
      shown: text.replace(/\r\n/g, '\n'),
      hint: 'lines end with CR LF, and are saved so',
      restored: (edited) => edited.replace(/\n/g, '\r\n'),
    };
  }
  return {
    shown: text.replace(long ? /[\\\r]/g : /[\\\r\n]/g, (c) => ESCAPES[c] as string),
    hint: 'with escapes: \\r and \\n are CR and LF, \\\\ is a backslash',
    restored: unescaped,
  };
}

function unescaped(edited: string): string {
  return edited.replace(/\\(.?)/gsu, (written, c: string) => {
    const meant = MEANT[c];
    if (meant === undefined) {
      throw new Error(`${written} is no escape: a backslash is written as \\\\.`);
    }
    return meant;
  });
}
