// A key as commands that make it again, to be pasted into a command line. A value of many elements
// is written as one RESTORE. Tests: tests/unit/copy_as.test.ts.

import { asArray, asNumber, asPairs, asText, asWord, type Reply, type Word } from '../../api/reply';
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
      return [
        [
          'HSET',
          key,
          ...asPairs(await run(['HGETALL', key]))
            .flat()
            .map(asWord),
        ],
      ];
    case 'zset': {
      const pairs = asPairs(await run(['ZRANGE', key, '0', '-1', 'WITHSCORES']));
      return [
        ['ZADD', key, ...pairs.flatMap(([member, score]) => [asText(score), asWord(member)])],
      ];
    }
    case 'stream': {
      const entries = asArray(await run(['XRANGE', key, '-', '+'])).map(asArray);
      if (entries.length === 0) return undefined;
      return entries.map(([id, fields]) => [
        'XADD',
        key,
        asText(id),
        ...asPairs(fields).flat().map(asWord),
      ]);
    }
    default:
      return undefined;
  }
}

async function restore(run: Run, key: Word, ttlMs: number): Promise<Word[]> {
  const bytes = asNumber(await run(['MEMORY', 'USAGE', key]));
  if (bytes > MAX_DUMP_BYTES) throw new Error('The value is too large to be copied as a command.');
  return ['RESTORE', key, String(ttlMs), asWord(await run(['DUMP', key]))];
}
