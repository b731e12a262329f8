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
  const stream = answering({ XLEN: 1, PTTL: -1, XRANGE: [['1-1', ['f', 'v']]] });
  assert.equal(await commandsOf(stream, 'k', 'stream'), 'XADD k 1-1 f v');
});

test('a long one is restored, a very large one refused', async () => {
  const long = { HLEN: 100_000, PTTL: -1, MEMORY: 500_000, DUMP: { base64: '/w==' } };
  assert.equal(await commandsOf(answering(long), 'k', 'hash'), 'RESTORE k 0 "\\xff"');
  const huge = answering({ ...long, MEMORY: 1e9 });
  await assert.rejects(commandsOf(huge, 'k', 'hash'), /too large/);
});
