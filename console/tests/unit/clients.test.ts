import assert from 'node:assert/strict';
import test from 'node:test';
import { clientsOf } from '../../src/api/clients';

test('a line of CLIENT LIST', () => {
  const [client, ...others] = clientsOf(
    'id=7 addr=[::1]:5000 name=load age=12 idle=3 flags=P db=2 sub=1 psub=0 cmd=client|list ' +
      'tot-mem=1024 user=anna lib-name=redis-py lib-ver=5 eq==a\n\n',
  );
  assert.equal(others.length, 0);
  assert.equal(client?.addr, '[::1]:5000');
  assert.equal(client?.cmd, 'client list');
  assert.equal(client?.library, 'redis-py 5');
  assert.deepEqual([client?.age, client?.idle, client?.memory, client?.sub], [12, 3, 1024, 1]);
  assert.deepEqual(client?.fields.at(-1), ['eq', '=a']);
});
