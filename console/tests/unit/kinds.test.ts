import assert from 'node:assert/strict';
import test from 'node:test';
import { KINDS, type Kind, makingOf, PAGE } from '../../src/pages/keys/kinds';

const { list, hash, set, zset } = KINDS as Record<'list' | 'hash' | 'set' | 'zset', Kind>;

test('lists and sorted sets are read by ranges', () => {
  assert.deepEqual(list.read('k', undefined, ''), ['LRANGE', 'k', '0', String(PAGE - 1)]);
  assert.deepEqual(list.read('k', '200', ''), ['LRANGE', 'k', '200', String(200 + PAGE - 1)]);
  const full = Array.from({ length: PAGE }, (_, index) => String(index));
  const page = list.page(full, '200');
  assert.equal(page.next, String(200 + PAGE));
  assert.deepEqual(page.elements[1], { id: '201', cells: ['201', '1'] });
  assert.equal(list.page(['x'], undefined).next, undefined);
  assert.deepEqual(zset.page([['m', 1.5]], undefined).elements[0]?.cells, ['1.5', 'm']);
});

test('hashes and sets are read by cursors', () => {
  const words = ['HSCAN', 'k', '7', 'MATCH', 'a*', 'COUNT', String(PAGE)];
  assert.deepEqual(hash.read('k', '7', 'a*'), words);
  assert.deepEqual(hash.page(['9', ['f', 'v']], undefined), {
    elements: [{ id: '=f', cells: ['f', 'v'] }],
    next: '9',
  });
  assert.equal(set.page(['0', ['m']], '9').next, undefined);
});

test('a sorted set with a pattern goes by its cursor', () => {
  assert.equal(zset.read('k', undefined, 'a*')[0], 'ZSCAN');
  const page = zset.page(['5', ['m', '1', 'n', '2']], undefined);
  assert.equal(page.next, '5');
  assert.deepEqual(
    page.elements.map((one) => one.cells),
    [
      ['1', 'm'],
      ['2', 'n'],
    ],
  );
});

test('elements are added, changed, removed', () => {
  const element = { id: '=f', cells: ['f', 'v'] };
  assert.deepEqual(hash.adding.command('k', ['f', 'v']), ['HSET', 'k', 'f', 'v']);
  assert.deepEqual(hash.removing('k', element), ['HDEL', 'k', 'f']);
});

test('a change looks whether what was seen is still there', () => {
  const field = { id: '=f', cells: ['f', 'v'] };
  const [eval1, script1, ...rest1] = hash.changing?.command('k', field, 'w') ?? [];
  assert.equal(eval1, 'EVAL');
  assert.match(String(script1), /'HGET'.*changed meanwhile.*'HSETEX', KEYS\[1\], 'KEEPTTL'/s);
  assert.deepEqual(rest1, ['1', 'k', 'f', 'v', 'w']);
  const member = { id: '=m', cells: ['1', 'm'] };
  const [eval2, script2, ...rest2] = zset.changing?.command('k', member, '2') ?? [];
  assert.equal(eval2, 'EVAL');
  assert.match(String(script2), /'ZSCORE'.*changed meanwhile.*'ZADD', KEYS\[1\], 'XX'/s);
  assert.deepEqual(rest2, ['1', 'k', 'm', '1', '2']);
});

test('a key of each type is made by one command', () => {
  assert.deepEqual(makingOf('k', 'string', 'a b'), ['SET', 'k', 'a b', 'NX']);
  assert.deepEqual(makingOf('k', 'hash', 'f "v w"'), ['HSET', 'k', 'f', 'v w']);
  assert.deepEqual(makingOf('k', 'stream', 'f v'), ['XADD', 'k', '*', 'f', 'v']);
  assert.throws(() => makingOf('k', 'list', ' '));
});
