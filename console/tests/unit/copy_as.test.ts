import assert from 'node:assert/strict';
import test from 'node:test';
import type { Reply, Word } from '../../src/api/reply';
import { lineOf } from '../../src/api/words';
import { commandsOf } from '../../src/pages/keys/copy_as';

const answering = (replies: Record<string, Reply>) => async (words: Word[]) => {
  const reply = replies[String(words[0])];
  assert.notEqual(reply, undefined, lineOf(words));
  return reply as Reply;
};

test('a short value is written as a person would', async () => {
  const run = answering({ STRLEN: 3, PTTL: 1_500, GET: 'a b' });
  assert.equal(await commandsOf(run, 'k', 'string'), 'SET k "a b"\nPEXPIRE k 1500');
  const zset = answering({ ZCARD: 1, PTTL: -1, ZRANGE: [['m', 1.5]] });
  assert.equal(await commandsOf(zset, 'k', 'zset'), 'ZADD k 1.5 m');
  const stream = answering({ XLEN: 1, PTTL: -1, XRANGE: [['1-1', ['f', 'v']]], XINFO: [] });
  assert.equal(await commandsOf(stream, 'k', 'stream'), 'XADD k 1-1 f v');
});

test('a long one is restored, a very large one refused', async () => {
  const long = { HLEN: 100_000, PTTL: -1, MEMORY: 500_000, DUMP: { base64: '/w==' } };
  assert.equal(await commandsOf(answering(long), 'k', 'hash'), 'RESTORE k 0 "\\xff"');
  const huge = answering({ ...long, MEMORY: 1e9 });
  await assert.rejects(commandsOf(huge, 'k', 'hash'), /too large/);
});

test('the deadlines of fields are copied, those of one moment together', async () => {
  const run = answering({
    HLEN: 4,
    PTTL: -1,
    HGETALL: { map: ['a', 'b', 'c', 'd'].map((field) => [field, '1']) },
    HPEXPIRETIME: [33177117420499, -1, 33177117420500, 33177117420499],
  });
  assert.equal(
    await commandsOf(run, 'k', 'hash'),
    'HSET k a 1 b 1 c 1 d 1\n' +
      'HPEXPIREAT k 33177117420499 FIELDS 2 a d\n' +
      'HPEXPIREAT k 33177117420500 FIELDS 1 c',
  );
});

test('the groups of a stream are copied with what they have read', async () => {
  const group = (name: Reply, last: string, read: number | null): Reply => ({
    map: [
      ['name', name],
      ['consumers', 1],
      ['pending', 2],
      ['last-delivered-id', last],
      ['entries-read', read],
      ['lag', null],
    ],
  });
  const groups = [group('a b', '1-1', 1), group({ base64: '/w==' }, '0-0', null)];
  const stream = { XLEN: 1, PTTL: 5, XRANGE: [['1-1', ['f', 'v']]], XINFO: groups };
  assert.equal(
    await commandsOf(answering(stream), 'k', 'stream'),
    'XADD k 1-1 f v\n' +
      'XGROUP CREATE k "a b" 1-1 ENTRIESREAD 1\n' +
      'XGROUP CREATE k "\\xff" 0-0\n' +
      'PEXPIRE k 5',
  );
});
