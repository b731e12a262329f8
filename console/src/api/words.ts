// Command lines as redis-cli reads them: words, quotes, escapes; and back.
// Tests: tests/unit/words.test.ts.

import { bytesOf, hex, type Word, wordOf } from './reply';

export class LineError extends Error {}

const ESCAPES: Record<string, number> = { n: 10, r: 13, t: 9, b: 8, a: 7 };

/** The words of a line; throws `LineError` when a quote stays open or is followed by a letter. */
export function wordsOf(line: string): Word[] {
  const words: Word[] = [];
  let at = 0;
  const isBlank = (index: number) => /\s/.test(line[index] ?? ' ');
  while (at < line.length) {
    if (isBlank(at)) {
      at += 1;
      continue;
    }
    const quote = line[at];
    if (quote === '"' || quote === "'") {
      const [word, end] = quoted(line, at + 1, quote);
      if (!isBlank(end)) throw new LineError('A closing quote must be followed by a blank.');
      words.push(word);
      at = end;
    } else {
      let end = at;
      while (!isBlank(end)) end += 1;
      words.push(line.slice(at, end));
      at = end;
    }
  }
  return words;
}

/** The word that begins behind a quote, and where the text goes on. */
function quoted(line: string, start: number, quote: string): [Word, number] {
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  let at = start;
  while (at < line.length) {
    const c = line[at] as string;
    if (c === quote) return [wordOf(Uint8Array.from(bytes)), at + 1];
    const escaped = line[at + 1];
    if (c === '\\' && quote === '"' && escaped !== undefined) {
      const pair = /^[0-9a-fA-F]{2}/.exec(line.slice(at + 2, at + 4));
      if (escaped === 'x' && pair) {
        bytes.push(Number.parseInt(pair[0], 16));
        at += 4;
      } else {
        bytes.push(
          ...(escaped in ESCAPES ? [ESCAPES[escaped] as number] : encoder.encode(escaped)),
        );
        at += 2;
      }
    } else if (c === '\\' && escaped === "'") {
      bytes.push(39);
      at += 2;
    } else {
      const point = String.fromCodePoint(line.codePointAt(at) as number);
      bytes.push(...encoder.encode(point));
      at += point.length;
    }
  }
  throw new LineError('A quote is not closed.');
}

/** Text whose control characters are seen. */
export const visible = (text: string): string =>
  text.replace(/\p{Cc}/gu, (c) => NAMED[c] ?? `\\x${hex(c.charCodeAt(0))}`);

/** A word as it would have to be typed. */
export function typed(word: Word): string {
  if (typeof word === 'string' && /^[^\s"'\\\p{C}]+$/u.test(word)) return word;
  if (typeof word === 'string') {
    const escaped = word.replace(/["\\]/g, '\\$&').replace(/[\n\r\t]/g, (c) => NAMED[c] as string);
    return `"${escaped.replace(/\p{Cc}/gu, (c) => `\\x${hex(c.charCodeAt(0))}`)}"`;
  }
  let text = '';
  for (const byte of bytesOf(word)) {
    const c = String.fromCharCode(byte);
    if (c === '"' || c === '\\') text += `\\${c}`;
    else text += byte >= 0x20 && byte < 0x7f ? c : `\\x${hex(byte)}`;
  }
  return `"${text}"`;
}

const NAMED: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

export const lineOf = (words: Word[]): string => words.map(typed).join(' ');
