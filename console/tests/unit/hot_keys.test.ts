import assert from 'node:assert/strict';
import test from 'node:test';
import { measuredOf, type SampledKey, telling } from '../../src/api/hot_keys';

const key = (name: string, noted: number): SampledKey => ({
  key: name,
  callsPerS: noted * 256,
  share: noted / 100,
  noted,
  meanUs: 1,
  meanBytes: 30,
});

test('a key that was noted once or twice says nothing', () => {
  const keys = [key('hot', 90), key('warm', 3), key('once', 1), key('twice', 2)];
  const sampled = { oneIn: 256, coversS: 64, noted: 96, callsPerS: 384, keys };
  assert.deepEqual(
    telling(sampled).map((one) => one.key),
    ['hot', 'warm'],
  );
});

test('a measurement is read as a map and as an array that holds one', () => {
  const keys = ['a', 7, { base64: '/w==' }, 3];
  const map = {
    map: [
      ['tracking-active', 1],
      ['by-cpu-time-us', keys],
    ] as [string, number | typeof keys][],
  };
  for (const reply of [map, [map]]) {
    const measured = measuredOf(reply);
    assert.equal(measured.active, true);
    assert.deepEqual(measured.tables, [
      [
        'by-cpu-time-us',
        [
          { key: 'a', amount: 7 },
          { key: { base64: '/w==' }, amount: 3 },
        ],
      ],
    ]);
  }
});
