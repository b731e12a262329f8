import assert from 'node:assert/strict';
import test from 'node:test';
import { isAt, placeOf } from '../../src/pages/keys/place';

const at = (query: string) => new URLSearchParams(query);

test('the address names the database and what is looked for', () => {
  assert.deepEqual(placeOf(at('db=3&find=a*&key=%3Da'), 0), { db: 3, find: 'a*' });
  assert.deepEqual(placeOf(at('db=0'), 3), { db: 0, find: '' });
});

test('where it names none, it is the database of the other pages', () => {
  for (const query of ['', 'find=', 'db=', 'db=x', 'db=-1', 'db=1.5', 'db=1e1']) {
    assert.equal(placeOf(at(query), 3).db, 3, query);
  }
});

test('what the list shows is held against the address', () => {
  const place = { db: 3, find: 'a' };
  assert.ok(isAt(at('db=3&find=a&key=%3Dab'), place));
  for (const query of ['db=2&find=a', 'db=3&find=b', 'db=3', 'find=a', 'db=x&find=a']) {
    assert.ok(!isAt(at(query), place), query);
  }
});
