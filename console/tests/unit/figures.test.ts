import assert from 'node:assert/strict';
import test from 'node:test';
import { type Figures, merged, quantile, sampleOf } from '../../src/api/figures';

const before: Figures = {
  atMs: 1_000,
  keys: { hits: 10, misses: 10, expired: 0, evicted: 5 },
  net: { in: 1_000, out: 0 },
  cpu: { userS: 1, sysS: 1 },
  workers: [{ id: 0, busyUs: 0, lockParks: 1 }],
  families: [{ name: 'string', calls: 100, usec: 100, histogram: [[2, 100]] }],
};

const now: Figures = {
  atMs: 3_000,
  keys: { hits: 40, misses: 20, expired: 2, evicted: 1 },
  net: { in: 3_000, out: 8 },
  cpu: { userS: 2, sysS: 1 },
  workers: [{ id: 0, busyUs: 500_000, lockParks: 5 }],
  families: [
    {
      name: 'string',
      calls: 300,
      usec: 300,
      histogram: [
        [2, 200],
        [1024, 100],
      ],
    },
    { name: 'hash', calls: 10, usec: 10 },
  ],
};

test('rates are by second', () => {
  const sample = sampleOf(now, before);
  assert.equal(sample?.netIn, 1_000);
  assert.equal(sample?.cpuUser, 0.5);
  assert.equal(sample?.expired, 1);
  assert.equal(sample?.lockParks, 2);
  assert.deepEqual(sample?.load, [0.25]);
  assert.equal(sample?.families.string?.rate, 100);
  assert.equal(sample?.families.hash?.rate, 5);
  assert.equal(sample?.commands, 105);
  assert.equal(sample?.hitRate, 0.75);
});

test('a counter that fell, or that nobody knows, has no rate', () => {
  const sample = sampleOf(now, before);
  assert.equal(sample?.evicted, Number.NaN);
  assert.equal(sample?.laneJobs, Number.NaN);
  assert.equal(sample?.used, Number.NaN);
  assert.equal(sampleOf(before, before), undefined);
});

test('an empty server has no keys, and of one that does not tell nothing is known', () => {
  const keysOf = (memory: Figures['memory']) => sampleOf({ ...now, memory }, before)?.keys;
  assert.equal(keysOf({ used: 1, byDb: [] }), 0);
  assert.equal(
    keysOf({
      used: 1,
      byDb: [
        { db: 0, keys: 2 },
        { db: 3, keys: 5 },
      ],
    }),
    7,
  );
  assert.ok(Number.isNaN(keysOf({ used: 1 })));
});

test('percentiles are of what happened in between', () => {
  const sample = sampleOf(now, before);
  assert.ok((sample?.p50 ?? 0) <= 2);
  assert.ok((sample?.p99 ?? 0) > 512 && (sample?.p99 ?? 0) <= 1024);
});

test('a percentile lies in its bucket, also when those before it are left out', () => {
  assert.equal(quantile([], 0.5), Number.NaN);
  assert.equal(quantile([[8, 10]], 1), 8);
  const low = quantile(
    [
      [1, 10],
      [1024, 10],
    ],
    0.51,
  );
  assert.ok(low > 512 && low < 1024, String(low));
});

test('histograms are added up by bucket', () => {
  assert.deepEqual(
    merged([
      [[4, 1]],
      [
        [2, 5],
        [4, 2],
      ],
    ]),
    [
      [2, 5],
      [4, 3],
    ],
  );
});
