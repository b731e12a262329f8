import assert from 'node:assert/strict';
import test from 'node:test';
import { rowsOf, treeOf } from '../../src/pages/keys/tree';

const KEYS = ['user:10', 'user:9', 'user:9:name', 'plain', 'a:', ':b', { base64: '/zph' }];

const shown = (open: string[]) =>
  rowsOf(treeOf(KEYS, ':'), (prefix) => open.includes(prefix)).map((row) =>
    row.kind === 'folder'
      ? `${row.folder.prefix} ${row.folder.count}`
      : `${row.depth} ${row.label}`,
  );

test('folders come first, and closed ones hide what is below', () => {
  assert.deepEqual(shown([]), [': 1', 'user: 3', '0 \\xff:a', '0 a:', '0 plain']);
});

test('an open folder shows folders and keys, in the order of numbers', () => {
  const rows = shown(['user:', 'user:9:']);
  assert.deepEqual(rows.slice(1, 6), ['user: 3', 'user:9: 1', '2 name', '1 9', '1 10']);
});

test('without a separator there are no folders', () => {
  const rows = rowsOf(treeOf(KEYS, ''), () => false);
  assert.ok(rows.every((row) => row.kind === 'key'));
  assert.equal(rows.length, KEYS.length);
});

test('a name with very many separators ends in one folder', () => {
  const tree = treeOf([`${'x:'.repeat(5_000)}y`], ':');
  let depth = 0;
  for (let at = tree; at.folders.size > 0; at = [...at.folders.values()][0] ?? tree) depth += 1;
  assert.equal(depth, 12);
});
