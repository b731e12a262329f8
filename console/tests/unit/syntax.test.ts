import assert from 'node:assert/strict';
import test from 'node:test';
import type { CommandRow } from '../../src/api/http';
import { completionsOf, rowOf, syntaxOf } from '../../src/api/syntax';

const row = (name: string, args: CommandRow['args'] = []): CommandRow => ({
  name,
  family: 'string',
  summary: '',
  arity: 1,
  flags: [],
  args,
});

test('arguments are written as in the manual', () => {
  const flags = ['optional'];
  const set = row('SET', [
    { name: 'key', type: 'key' },
    { name: 'value', type: 'string' },
    {
      name: 'condition',
      type: 'oneof',
      flags,
      arguments: [
        { name: 'nx', type: 'pure-token', token: 'NX' },
        { name: 'xx', type: 'pure-token', token: 'XX' },
      ],
    },
    { name: 'seconds', type: 'integer', token: 'EX', flags },
    { name: 'member', type: 'string', flags: ['multiple'] },
    { name: 'pattern', type: 'pattern', token: 'GET', flags: ['multiple', 'multiple_token'] },
  ]);
  assert.equal(
    syntaxOf(set),
    'key value [NX | XX] [EX seconds] member [member ...] GET pattern [GET pattern ...]',
  );
});

test('the longest name that the line begins with is the command', () => {
  const rows = [row('CONFIG'), row('CONFIG GET'), row('GET')];
  assert.equal(rowOf(rows, 'config  get maxmemory')?.name, 'CONFIG GET');
  assert.equal(rowOf(rows, 'config ge')?.name, 'CONFIG');
  assert.equal(rowOf(rows, 'getx'), undefined);
});

test('completions begin with what was typed, the shortest first', () => {
  const rows = [row('GETRANGE'), row('GET'), row('SET')];
  assert.deepEqual(
    completionsOf(rows, 'ge').map((one) => one.name),
    ['GET', 'GETRANGE'],
  );
  assert.deepEqual(completionsOf(rows, ''), []);
});
