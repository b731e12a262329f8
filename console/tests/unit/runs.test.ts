import assert from 'node:assert/strict';
import test from 'node:test';
import { kindName, type Run, resultOf } from '../../src/api/runs';

const RUN: Run = {
  kind: 'snapshot',
  why: 'BGSAVE',
  beganMs: 1,
  tookMs: 2,
  keys: 1200,
  bytes: 2048,
  file: 'dump.rdb',
  error: null,
};

test('a run tells what it wrote, or why it wrote nothing', () => {
  assert.equal(resultOf(RUN), '1,200 keys, 2 KiB');
  assert.equal(resultOf({ ...RUN, keys: 1 }), '1 key, 2 KiB');
  const error = 'No space left on device';
  assert.equal(resultOf({ ...RUN, keys: 0, bytes: 0, error }), error);
});

test('a run is named by what it writes', () => {
  assert.equal(kindName(RUN), 'snapshot');
  assert.equal(kindName({ ...RUN, kind: 'rewrite' }), 'append-only file');
});
