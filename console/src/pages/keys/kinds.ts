// What is told apart by type: how one page of a collection is read, and how an element is added,
// changed, removed. A page is a range or a step of a cursor; nothing reads a whole large value.
//
// Streams and strings have views of their own. Tests: tests/unit/kinds.test.ts.

import { asArray, asPairs, asText, asWord, type Reply, type Word, wordId } from '../../api/reply';
import { LineError, wordsOf } from '../../api/words';

export interface Element {
  id: string;
  cells: Word[];
}

export interface PageOf {
  elements: Element[];
  /** Where the next page begins; nothing at the end. */
  next: string | undefined;
}

export interface Kind {
  columns: string[];
  length: string;
  /** Whether a pattern chooses among the elements. */
  filtered: boolean;
  read(key: Word, from: string | undefined, pattern: string): Word[];
  page(reply: Reply, from: string | undefined): PageOf;
  /** Names of what is asked for to add an element; the command that does it. */
  adding: { fields: string[]; command(key: Word, values: string[]): Word[] };
  /** The cell that can be changed. */
  changing?: { cell: number; command(key: Word, element: Element, value: string): Word[] };
  removing(key: Word, element: Element): Word[];
}

export const PAGE = 200;

const cursorWords = (command: string, key: Word, from: string | undefined, pattern: string) => [
  command,
  key,
  from ?? '0',
  ...(pattern === '' ? [] : ['MATCH', pattern]),
  'COUNT',
  String(PAGE),
];

const cursorNext = (cursor: Reply | undefined) => {
  const text = asText(cursor);
  return text === '0' ? undefined : text;
};

const rangeNext = (got: number, from: string | undefined) =>
  got < PAGE ? undefined : String(Number(from ?? 0) + got);

const LAST = (from: string | undefined) => String(Number(from ?? 0) + PAGE - 1);

/** Removes the element at an index if it still is the one that was seen. */
const REMOVE_AT = `if redis.call('LINDEX', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return redis.error_reply('The list has changed meanwhile.')
end
redis.call('LSET', KEYS[1], ARGV[1], ARGV[3])
return redis.call('LREM', KEYS[1], 1, ARGV[3])`;
const SET_AT = `if redis.call('LINDEX', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return redis.error_reply('The list has changed meanwhile.')
end
return redis.call('LSET', KEYS[1], ARGV[1], ARGV[3])`;
/** Puts a value into a field that still has the one that was seen; the field keeps its deadline. */
const SET_FIELD = `if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return redis.error_reply('The field has changed meanwhile.')
end
return redis.call('HSETEX', KEYS[1], 'KEEPTTL', 'FIELDS', '1', ARGV[1], ARGV[3])`;
/** The same of a score: as numbers, for the page may write the same one in another way. */
const SET_SCORE = `local now = redis.call('ZSCORE', KEYS[1], ARGV[1])
local is_same = now == ARGV[2]
if now and not is_same then
  is_same = tonumber(now) ~= nil and tonumber(now) == tonumber(ARGV[2])
end
if not is_same then
  return redis.error_reply('The score has changed meanwhile.')
end
return redis.call('ZADD', KEYS[1], 'XX', ARGV[3], ARGV[1])`;

const list: Kind = {
  columns: ['Index', 'Element'],
  length: 'LLEN',
  filtered: false,
  read: (key, from) => ['LRANGE', key, from ?? '0', LAST(from)],
  page(reply, from) {
    const start = Number(from ?? 0);
    const elements = asArray(reply).map((value, index) => {
      const at = String(start + index);
      return { id: at, cells: [at, asWord(value)] };
    });
    return { elements, next: rangeNext(elements.length, from) };
  },
  adding: {
    fields: ['Element'],
    command: (key, [value = '']) => ['RPUSH', key, value],
  },
  changing: {
    cell: 1,
    command: (key, element, value) => [
      'EVAL',
      SET_AT,
      '1',
      key,
      element.id,
      element.cells[1] ?? '',
      value,
    ],
  },
  removing: (key, element) => [
    'EVAL',
    REMOVE_AT,
    '1',
    key,
    element.id,
    element.cells[1] ?? '',
    `removed ${crypto.randomUUID?.() ?? Math.random()}`,
  ],
};

const hash: Kind = {
  columns: ['Field', 'Value'],
  length: 'HLEN',
  filtered: true,
  read: (key, from, pattern) => cursorWords('HSCAN', key, from, pattern),
  page(reply) {
    const [cursor, page] = asArray(reply);
    const elements = asPairs(page).map(([field, value]) => {
      const name = asWord(field);
      return { id: wordId(name), cells: [name, asWord(value)] };
    });
    return { elements, next: cursorNext(cursor) };
  },
  adding: {
    fields: ['Field', 'Value'],
    command: (key, [field = '', value = '']) => ['HSET', key, field, value],
  },
  changing: {
    cell: 1,
    command: (key, { cells: [field = '', before = ''] }, value) => [
      'EVAL',
      SET_FIELD,
      '1',
      key,
      field,
      before,
      value,
    ],
  },
  removing: (key, element) => ['HDEL', key, element.cells[0] ?? ''],
};

const set: Kind = {
  columns: ['Member'],
  length: 'SCARD',
  filtered: true,
  read: (key, from, pattern) => cursorWords('SSCAN', key, from, pattern),
  page(reply) {
    const [cursor, page] = asArray(reply);
    const elements = asArray(page).map((value) => {
      const member = asWord(value);
      return { id: wordId(member), cells: [member] };
    });
    return { elements, next: cursorNext(cursor) };
  },
  adding: { fields: ['Member'], command: (key, [member = '']) => ['SADD', key, member] },
  removing: (key, element) => ['SREM', key, element.cells[0] ?? ''],
};

/** With a pattern by ZSCAN, else in order of scores. */
const zset: Kind = {
  columns: ['Score', 'Member'],
  length: 'ZCARD',
  filtered: true,
  read: (key, from, pattern) =>
    pattern === ''
      ? ['ZRANGE', key, from ?? '0', LAST(from), 'WITHSCORES']
      : cursorWords('ZSCAN', key, from, pattern),
  page(reply, from) {
    const all = asArray(reply);
    const byCursor = all.length === 2 && Array.isArray(all[1]) && !Array.isArray(all[0]);
    const pairs = asPairs(byCursor ? all[1] : reply);
    const elements = pairs.map(([member, score]) => {
      const name = asWord(member);
      return { id: wordId(name), cells: [asText(score), name] };
    });
    return { elements, next: byCursor ? cursorNext(all[0]) : rangeNext(elements.length, from) };
  },
  adding: {
    fields: ['Score', 'Member'],
    command: (key, [score = '', member = '']) => ['ZADD', key, score, member],
  },
  changing: {
    cell: 0,
    command: (key, { cells: [before = '', member = ''] }, score) => [
      'EVAL',
      SET_SCORE,
      '1',
      key,
      member,
      before,
      score,
    ],
  },
  removing: (key, element) => ['ZREM', key, element.cells[1] ?? ''],
};

export const KINDS: Record<string, Kind> = { list, hash, set, zset };

/** The command that tells how long a value is. */
export const LENGTHS: Record<string, string> = {
  string: 'STRLEN',
  list: 'LLEN',
  hash: 'HLEN',
  set: 'SCARD',
  zset: 'ZCARD',
  stream: 'XLEN',
};

/** The command that makes a key of this type; throws what is wrong with the value. */
export function makingOf(name: string, type: string, value: string): Word[] {
  if (type === 'string') return ['SET', name, value, 'NX'];
  const words = wordsOf(value);
  if (words.length === 0) throw new LineError('A value needs at least one element.');
  const commands: Record<string, Word[]> = {
    hash: ['HSET', name],
    list: ['RPUSH', name],
    set: ['SADD', name],
    zset: ['ZADD', name],
    stream: ['XADD', name, '*'],
  };
  return [...(commands[type] ?? []), ...words];
}
