// Replies and arguments as the server's JSON has them, and what pages read from them.
//
// A reply is RESP3 in JSON: what JSON cannot say is an object with one telling field. An argument
// (`Word`) is text, or bytes that are no UTF-8 as base64. Tests: tests/unit/reply.test.ts.

export type Bytes = { base64: string };
/** An argument of a command, a key, a member: text, or bytes that are no text. */
export type Word = string | Bytes;

export type Reply =
  | string
  | number
  | boolean
  | null
  | Reply[]
  | Bytes
  | { status: string }
  | { error: string }
  | { integer: string }
  | { double: string }
  | { map: [Reply, Reply][] }
  | { set: Reply[] }
  | { text: string; format: string }
  | { tooLarge: number };

/** What the server refused, in its own words. */
export class CommandError extends Error {}

/** The reply was too long to be sent. */
export class TooLargeError extends CommandError {}

const isObject = (
  reply: Reply,
): reply is Exclude<Reply, string | number | boolean | null | Reply[]> =>
  typeof reply === 'object' && reply !== null && !Array.isArray(reply);

/** The text of an error reply, or nothing. */
export function errorOf(reply: Reply): string | undefined {
  return isObject(reply) && 'error' in reply ? reply.error : undefined;
}

/** The reply, unless it is an error: that is thrown. */
export function orThrow(reply: Reply): Reply {
  const error = errorOf(reply);
  if (error !== undefined) throw new CommandError(error);
  if (isObject(reply) && 'tooLarge' in reply) {
    throw new TooLargeError(`The reply has ${reply.tooLarge} bytes, which is too much to show.`);
  }
  return reply;
}

export function isBytes(reply: Reply | undefined): reply is Bytes {
  return typeof reply === 'object' && reply !== null && 'base64' in reply;
}

/** A key, member or value; numbers become their text. */
export function asWord(reply: Reply | undefined): Word {
  return reply !== undefined && isBytes(reply) ? reply : asText(reply);
}

/** The text of a scalar; of bytes an escaped form. */
export function asText(reply: Reply | undefined): string {
  if (reply === undefined || reply === null) return '';
  if (typeof reply !== 'object') return String(reply);
  if (Array.isArray(reply)) return reply.map(asText).join(' ');
  if ('base64' in reply) return escapedBytes(bytesOf(reply));
  if ('status' in reply) return reply.status;
  if ('error' in reply) return reply.error;
  if ('integer' in reply) return reply.integer;
  if ('double' in reply) return reply.double;
  if ('text' in reply) return reply.text;
  return '';
}

export function asNumber(reply: Reply | undefined): number {
  return typeof reply === 'number' ? reply : Number(asText(reply));
}

/** The elements of an array or a set; nothing of others. */
export function asArray(reply: Reply | undefined): Reply[] {
  if (Array.isArray(reply)) return reply;
  if (reply !== undefined && isObject(reply) && 'set' in reply) return reply.set;
  return [];
}

/** The pairs of a map, of an array of pairs, or of a flat array. */
export function asPairs(reply: Reply | undefined): [Reply, Reply][] {
  if (reply !== undefined && isObject(reply) && 'map' in reply) return reply.map;
  const all = asArray(reply);
  if (all.length > 0 && all.every((one) => Array.isArray(one) && one.length === 2)) {
    return all as [Reply, Reply][];
  }
  const pairs: [Reply, Reply][] = [];
  for (let index = 0; index + 1 < all.length; index += 2) {
    pairs.push([all[index] as Reply, all[index + 1] as Reply]);
  }
  return pairs;
}

/** A map with text keys. */
export function asRecord(reply: Reply | undefined): Record<string, Reply> {
  return Object.fromEntries(asPairs(reply).map(([name, value]) => [asText(name), value]));
}

export function bytesOf(word: Word): Uint8Array {
  if (typeof word === 'string') return new TextEncoder().encode(word);
  const binary = atob(word.base64);
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

/** Text when the bytes are UTF-8, else base64: what the server would send. */
export function wordOf(bytes: Uint8Array): Word {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    let binary = '';
    for (const byte of bytes) binary += String.fromCharCode(byte);
    return { base64: btoa(binary) };
  }
}

/** Bytes as text in which what does not print is `\xHH`. */
export function escapedBytes(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) {
    text +=
      byte >= 0x20 && byte < 0x7f && byte !== 0x5c ? String.fromCharCode(byte) : `\\x${hex(byte)}`;
  }
  return text;
}

export const hex = (byte: number): string => byte.toString(16).padStart(2, '0');

/** One text for each word, so that words can be keys of a Map and parts of an address. */
export function wordId(word: Word): string {
  return typeof word === 'string' ? `=${word}` : `~${word.base64}`;
}

export function wordOfId(id: string): Word {
  return id.startsWith('~') ? { base64: id.slice(1) } : id.slice(1);
}
