import assert from 'node:assert/strict';
import test from 'node:test';
import type { Reply, Word } from '../../src/api/reply';
import { type Sampled, Sampler } from '../../src/api/sampler';

test('each key is asked about once, and one that has gone is left out', async () => {
  const run = async (): Promise<Reply> => ['0', ['a', 'gone']];
  const askAll = async (all: Word[][]): Promise<Reply[]> =>
    all.map(([command, last, key]) => {
      if (command === 'MEMORY') return key === 'gone' ? null : 64;
      if (command === 'TYPE') return { status: last === 'gone' ? 'none' : 'hash' };
      return -1;
    });
  const sampler = new Sampler(run, askAll, 0);
  const found: Sampled[] = [];
  await sampler.step({ keys: 10, ms: 1_000 }, (batch) => found.push(...batch));
  assert.deepEqual(found, [{ key: 'a', type: 'hash', bytes: 64, ttlMs: -1 }]);
  assert.equal(sampler.looked, 2);
  assert.ok(sampler.done);
});

test('what a stop has left is looked at next', async () => {
  const names = Array.from({ length: 1_000 }, (_, index) => `k${index}`);
  const run = async (): Promise<Reply> => ['0', names];
  const askAll = async (all: Word[][]): Promise<Reply[]> =>
    all.map(([command]) => (command === 'TYPE' ? 'string' : 64));
  const sampler = new Sampler(run, askAll, 0);
  const found: Word[] = [];
  await sampler.step({ keys: 10_000, ms: 1_000 }, (batch) => {
    found.push(...batch.map(({ key }) => key));
    sampler.stop();
  });
  assert.equal(sampler.looked, 200);
  assert.ok(!sampler.done);
  await sampler.step({ keys: 10_000, ms: 1_000 }, (batch) =>
    found.push(...batch.map(({ key }) => key)),
  );
  assert.deepEqual(found, names);
  assert.ok(sampler.done);
});
