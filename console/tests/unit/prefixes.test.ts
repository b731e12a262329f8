import assert from 'node:assert/strict';
import test from 'node:test';
import type { Sampled } from '../../src/api/sampler';
import { adviceOn, Prefixes } from '../../src/pages/memory/prefixes';

const CALM = { used: 100, rss: 110, max: 1_000, policy: 'allkeys-lru' };
const one = (key: string, more: Partial<Sampled> = {}): Sampled => ({
  key,
  type: 'string',
  bytes: 400,
  ttlMs: -1,
  ...more,
});

test('keys are summed up by the first parts of their names', () => {
  const prefixes = new Prefixes(2);
  for (const key of ['a:b:1', 'a:b:2', 'a:1', 'plain']) prefixes.add(one(key));
  prefixes.add({ ...one(''), key: { base64: '/w==' } });
  assert.deepEqual([...prefixes.all.keys()], ['a:b:', 'a:', '(no prefix)', '(no text)']);
  assert.equal(prefixes.all.get('a:b:')?.keys, 2);
  assert.equal(prefixes.bytes, 2_000);
  assert.deepEqual([...prefixes.types.values()], [{ type: 'string', keys: 5, bytes: 2_000 }]);
});

test('memory is summed up by when it expires', () => {
  const prefixes = new Prefixes(1);
  const HOUR_MS = 3_600_000;
  const left = [0, HOUR_MS, HOUR_MS + 1, 25 * HOUR_MS, 1_000 * HOUR_MS, -1, -1];
  for (const ttlMs of left) prefixes.add(one('a', { ttlMs }));
  assert.deepEqual(prefixes.expires, [800, 400, 400, 400, 800]);
});

test('a healthy server gets no advice', () => {
  const prefixes = new Prefixes(1);
  for (let index = 0; index < 100; index += 1) prefixes.add(one(`a:${index}`));
  assert.deepEqual(adviceOn(prefixes, CALM), []);
});

test('keys that were left without an expiry are seen', () => {
  const prefixes = new Prefixes(1);
  for (let index = 0; index < 100; index += 1) {
    prefixes.add(one(`session:${index}`, { ttlMs: index < 95 ? 1_000 : -1 }));
  }
  assert.match(adviceOn(prefixes, CALM)[0]?.text ?? '', /^5 of 100 keys of session: never expire/);
});

test('one large value and long names are seen', () => {
  const prefixes = new Prefixes(1);
  prefixes.add(one('big:1', { bytes: 50 << 20 }));
  for (let index = 0; index < 100; index += 1) {
    prefixes.add(one(`a-name-that-is-rather-long-for-what-it-holds:${index}`, { bytes: 60 }));
  }
  const texts = adviceOn(prefixes, CALM).map((advice) => advice.text);
  assert.ok(texts.some((text) => text.startsWith('big:1 alone has 50 MiB')));
  assert.ok(texts.some((text) => text.startsWith('Names of a-name')));
});

test('the limit, and pages that are mostly empty', () => {
  const advise = (now: Partial<typeof CALM>) => adviceOn(new Prefixes(1), { ...CALM, ...now })[0];
  assert.match(advise({ max: 0 })?.text ?? '', /no memory limit/);
  assert.match(advise({ used: 950, policy: 'noeviction' })?.how ?? '', /refused/);
  assert.match(advise({ used: 1 << 30, rss: 2 ** 31, max: 2 ** 40 })?.how ?? '', /activedefrag/);
});
