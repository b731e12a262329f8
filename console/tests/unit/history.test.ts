import assert from 'node:assert/strict';
import test from 'node:test';
import { type History, samplesOf } from '../../src/api/history';

const history: History = {
  stepS: 1,
  atMs: [1_000, 2_000],
  load: [[0.5], [1]],
  families: { string: [10, 20], hash: [null, 5] },
  hits: [3, 0],
  misses: [1, 0],
  used: [100, 200],
  p99: [null, 7],
};

test('each point becomes a sample', () => {
  const [first, second] = samplesOf(history);
  assert.equal(first?.atMs, 1_000);
  assert.equal(first?.commands, 10);
  assert.equal(second?.commands, 25);
  assert.equal(first?.hitRate, 0.75);
  assert.deepEqual(second?.load, [1]);
  assert.equal(second?.p99, 7);
  assert.equal(second?.families.hash?.rate, 5);
});

test('what the server does not know is no number', () => {
  const [first, second] = samplesOf(history);
  assert.ok(Number.isNaN(first?.p99));
  assert.ok(Number.isNaN(first?.rss));
  assert.ok(Number.isNaN(second?.hitRate));
  assert.equal(first?.families.hash, undefined);
});
