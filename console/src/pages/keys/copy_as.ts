// A key as commands that make it again, to be pasted into a command line. A value of many elements
// is written as one RESTORE. Tests: tests/unit/copy_as.test.ts.

import {
  asArray,
  asNumber,
  asPairs,
  asRecord,
  asText,
  asWord,
  type Reply,
  type Word,
} from '../../api/reply';
import { lineOf } from '../../api/words';
import { LENGTHS } from './kinds';

type Run = (words: Word[]) => Promise<Reply>;

const MAX_ELEMENTS = 500;
const MAX_BYTES = 64 * 1024;
const MAX_DUMP_BYTES = 1024 * 1024;

export async function commandsOf(run: Run, key: Word, type: string): Promise<string> {
  const length = asNumber(await run([LENGTHS[type] ?? 'STRLEN', key]));
  const ttl = asNumber(await run(['PTTL', key]));
  const isShort = length <= (type === 'string' ? MAX_BYTES : MAX_ELEMENTS);
  const lines = isShort ? await readable(run, key, type) : undefined;
  if (lines === undefined) return lineOf(await restore(run, key, Math.max(0, ttl)));
  if (ttl >= 0) lines.push(['PEXPIRE', key, String(ttl)]);
  return lines.map(lineOf).join('\n');
}

/** The commands a person would write; nothing for types that have none. */
async function readable(run: Run, key: Word, type: string): Promise<Word[][] | undefined> {
  switch (type) {
    case 'string':
      return [['SET', key, asWord(await run(['GET', key]))]];
    case 'list':
      return [['RPUSH', key, ...asArray(await run(['LRANGE', key, '0', '-1'])).map(asWord)]];
    case 'set':
      return [['SADD', key, ...asArray(await run(['SMEMBERS', key])).map(asWord)]];
    case 'hash':
      return hash(run, key);
    case 'zset': {
      const pairs = asPairs(await run(['ZRANGE', key, '0', '-1', 'WITHSCORES']));
      return [
        ['ZADD', key, ...pairs.flatMap(([member, score]) => [asText(score), asWord(member)])],
      ];
    }
    case 'stream':
      return stream(run, key);
    default:
      return undefined;
  }
}

/** The fields, and the deadlines of those that have one. */
async function hash(run: Run, key: Word): Promise<Word[][]> {
  const pairs = asPairs(await run(['HGETALL', key])).map((pair) => pair.map(asWord));
  const fields = pairs.map(([field = '']) => field);
  const byDeadline = new Map<number, Word[]>();
  if (fields.length > 0) {
    const asked = ['HPEXPIRETIME', key, 'FIELDS', String(fields.length), ...fields];
    const deadlines = asArray(await run(asked)).map(asNumber);
    fields.forEach((field, index) => {
      const deadline = deadlines[index] ?? -1;
      if (deadline >= 0) byDeadline.set(deadline, [...(byDeadline.get(deadline) ?? []), field]);
    });
  }
  const expiring = [...byDeadline].map(([deadline, some]): Word[] => {
    return ['HPEXPIREAT', key, String(deadline), 'FIELDS', String(some.length), ...some];
  });
  return [['HSET', key, ...pairs.flat()], ...expiring];
}

/** The entries, and the groups; not their consumers, nor what is pending. */
async function stream(run: Run, key: Word): Promise<Word[][] | undefined> {
  const entries = asArray(await run(['XRANGE', key, '-', '+'])).map(asArray);
  // An empty stream is made by no XADD.
  if (entries.length === 0) return undefined;
  const added = entries.map(([id, fields]): Word[] => {
    return ['XADD', key, asText(id), ...asPairs(fields).flat().map(asWord)];
  });
  const groups = asArray(await run(['XINFO', 'GROUPS', key])).map((reply): Word[] => {
    const told = asRecord(reply);
    const read = asText(told['entries-read']);
    const name = asWord(told.name);
    const made = ['XGROUP', 'CREATE', key, name, asText(told['last-delivered-id'])];
    // Without a number the server does not know it.
    return read === '' ? made : [...made, 'ENTRIESREAD', read];
  });
  return [...added, ...groups];
}

async function restore(run: Run, key: Word, ttlMs: number): Promise<Word[]> {
  const bytes = asNumber(await run(['MEMORY', 'USAGE', key]));
  if (bytes > MAX_DUMP_BYTES) throw new Error('The value is too large to be copied as a command.');
  return ['RESTORE', key, String(ttlMs), asWord(await run(['DUMP', key]))];
}
