import assert from 'node:assert/strict';
import test from 'node:test';
import { bytes, count, duration, micros, percent, short } from '../../src/api/format';

test('numbers have three digits and a unit', () => {
  const shown = [0, 0.5, 12.34, 999, 9_999, 12_345, 1_234_567, 2.5e9].map(short);
  assert.deepEqual(shown, ['0', '0.5', '12.3', '999', '9,999', '12.3 k', '1.23 M', '2.5 G']);
  assert.equal(count(1234567), '1,234,567');
});

test('bytes go by powers of 1,024', () => {
  const shown = [0, 999, 1000, 1024, 1536, 1 << 20, 5 * 2 ** 30].map(bytes);
  assert.deepEqual(shown, ['0 B', '999 B', '0.98 KiB', '1 KiB', '1.5 KiB', '1 MiB', '5 GiB']);
});

test('times', () => {
  assert.deepEqual([0.5, 12, 1500, 2.5e6].map(micros), ['0.5 µs', '12 µs', '1.5 ms', '2.5 s']);
  assert.equal(micros(Number.NaN), '–');
  assert.deepEqual(
    [0, 59, 60, 3661, 90_000, 864_000].map((seconds) => duration(seconds)),
    ['0 s', '59 s', '1 min', '1 h 1 min', '1 d 1 h', '10 d'],
  );
  assert.equal(duration(3661, 1), '1 h');
});

test('shares', () => {
  assert.deepEqual([0, 0.123, 1, Number.NaN].map(percent), ['0 %', '12.3 %', '100 %', '–']);
});
