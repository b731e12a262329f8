import assert from 'node:assert/strict';
import test from 'node:test';
import type { Figures } from '../../src/api/figures';
import { troublesOf } from '../../src/api/troubles';

const pagesOf = (more: Partial<Figures>) =>
  troublesOf({ atMs: 0, ...more }).map((trouble) => trouble.page);

test('a server that is well has no troubles', () => {
  assert.deepEqual(pagesOf({}), []);
  const persistence = { rdb_last_bgsave_status: 'ok', aof_enabled: 1, aof_last_write_status: 'ok' };
  assert.deepEqual(pagesOf({ persistence, replication: { role: 'slave', link: 'up' } }), []);
  assert.deepEqual(pagesOf({ replication: { role: 'master', replicas: 2 } }), []);
});

test('a link that is down and files that can not be written are troubles', () => {
  assert.deepEqual(pagesOf({ replication: { role: 'slave', link: 'down' } }), ['replication']);
  assert.deepEqual(pagesOf({ persistence: { rdb_last_bgsave_status: 'err' } }), ['persistence']);
  const files = { aof_last_write_status: 'err', aof_last_bgrewrite_status: 'err' };
  assert.equal(pagesOf({ persistence: { aof_enabled: 1, ...files } }).length, 2);
  assert.deepEqual(pagesOf({ persistence: { aof_enabled: 0, ...files } }), []);
});
