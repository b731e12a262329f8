import assert from 'node:assert/strict';
import test from 'node:test';
import { infoOf } from '../../src/api/info';
import { replicationOf } from '../../src/api/replication';

const ZEROS = '0'.repeat(40);
const HISTORY = '6afb4f71cf191ad19f475c5a2aaa7f3baeada0ce';
const of = (text: string) => replicationOf(infoOf(text));

// The lines of a redis-server 7.0.15, and as a valkey-server 9.1.2 adds to them.
const PRIMARY = `# Replication
role:master
connected_slaves:3
slave0:ip=127.0.0.1,port=17502,state=online,offset=40,lag=1
slave1:ip=::1,port=17504,state=wait_bgsave,offset=0,lag=0,type=replica
slave2:ip=10.0.0.9,port=6379,state=online,offset=50,lag=-1,type=replica
replicas_waiting_psync:0
master_failover_state:no-failover
master_replid:${HISTORY}
master_replid2:${ZEROS}
master_repl_offset:50
second_repl_offset:-1
repl_backlog_active:1
repl_backlog_size:1048576
repl_backlog_first_byte_offset:1
repl_backlog_histlen:50
`;

test('a primary tells its replicas, their lag and the backlog', () => {
  const now = of(PRIMARY);
  assert.deepEqual(now.replicas, [
    { name: '127.0.0.1:17502', state: 'online', offset: 40, behindBytes: 10, silentS: 1 },
    { name: '[::1]:17504', state: 'wait_bgsave', offset: 0, behindBytes: NaN, silentS: NaN },
    { name: '10.0.0.9:6379', state: 'online', offset: 50, behindBytes: 0, silentS: NaN },
  ]);
  assert.equal(now.isReplica, false);
  assert.equal(now.primary, undefined);
  assert.equal(now.history, HISTORY);
  assert.equal(now.former, undefined);
  assert.deepEqual(now.backlog, { size: 1_048_576, used: 50, first: 1 });
});

const REPLICA = `role:slave
master_host:127.0.0.1
master_port:17501
master_link_status:LINK
master_last_io_seconds_ago:LAST
master_sync_in_progress:0
MORE
connected_slaves:0
master_replid:${HISTORY}
master_replid2:${ZEROS}
master_repl_offset:87
repl_backlog_active:0
`;
const replica = (link: string, last: string, more = '') =>
  of(REPLICA.replace('LINK', link).replace('LAST', last).replace('MORE', more)).primary;

test('a replica tells its primary and the link', () => {
  assert.deepEqual(replica('up', '3'), {
    name: '127.0.0.1:17501',
    isUp: true,
    silentS: 3,
    downS: NaN,
    copy: undefined,
  });
  const down = replica('down', '-1', 'master_link_down_since_seconds:12');
  assert.deepEqual([down?.isUp, down?.silentS, down?.downS], [false, NaN, 12]);
  assert.equal(of(REPLICA).backlog, undefined);
});

test('a full copy is told, with its size where it is known', () => {
  const copy = (total: string) =>
    of(
      `role:slave\nmaster_sync_in_progress:1\nmaster_sync_total_bytes:${total}\n` +
        'master_sync_read_bytes:212\n',
    ).primary?.copy;
  assert.deepEqual(copy('0'), { readBytes: 212, totalBytes: NaN });
  assert.deepEqual(copy('400'), { readBytes: 212, totalBytes: 400 });
});

test('after a failover the former history is told', () => {
  const former = '86b0ea7da497433bdcb546dd28d76f7d846e898b';
  const text = PRIMARY.replace(ZEROS, former).replace('offset:-1', 'offset:31');
  assert.deepEqual(of(text).former, { history: former, offset: 31 });
});

test('a server that tells nothing of it is a primary without replicas', () => {
  const now = of('');
  assert.equal(now.isReplica, false);
  assert.deepEqual(now.replicas, []);
  assert.equal(now.backlog, undefined);
});
