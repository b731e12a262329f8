import assert from 'node:assert/strict';
import test from 'node:test';
import {
  asArray,
  asNumber,
  asPairs,
  asRecord,
  asText,
  asWord,
  bytesOf,
  CommandError,
  orThrow,
  wordId,
  wordOf,
  wordOfId,
} from '../../src/api/reply';

test('an error and what is too large are thrown, all else is given back', () => {
  assert.throws(() => orThrow({ error: 'ERR no' }), new CommandError('ERR no'));
  assert.throws(() => orThrow({ tooLarge: 9_000_000 }), CommandError);
  assert.equal(orThrow('error'), 'error');
  assert.equal(orThrow(null), null);
});

test('scalars are read as text and as numbers', () => {
  assert.equal(asText({ status: 'OK' }), 'OK');
  assert.equal(asText({ integer: '9223372036854775807' }), '9223372036854775807');
  assert.equal(asText({ text: 'a', format: 'txt' }), 'a');
  assert.equal(asText(null), '');
  assert.equal(asNumber('12'), 12);
  assert.equal(asNumber({ double: 'inf' }), Number.NaN);
  assert.equal(asText({ base64: 'AGH/' }), '\\x00a\\xff');
});

test('pairs come from maps, pairs and flat arrays', () => {
  const pairs = [['a', 1]];
  assert.deepEqual(asPairs({ map: [['a', 1]] }), pairs);
  assert.deepEqual(asPairs([['a', 1]]), pairs);
  assert.deepEqual(asPairs(['a', 1]), pairs);
  assert.deepEqual(asRecord(['a', 1, 'b', null]), { a: 1, b: null });
  assert.deepEqual(asArray({ set: ['x'] }), ['x']);
  assert.deepEqual(asArray(7), []);
});

test('bytes that are no text keep their bytes', () => {
  const bytes = Uint8Array.from([0xff, 0x00, 0x61]);
  const word = wordOf(bytes);
  assert.deepEqual(word, { base64: '/wBh' });
  assert.deepEqual(bytesOf(word), bytes);
  assert.equal(wordOf(new TextEncoder().encode('grün')), 'grün');
  assert.deepEqual(asWord({ base64: '/wBh' }), { base64: '/wBh' });
});

test('a word survives its id, whatever it begins with', () => {
  for (const word of ['', '~a', '=b', 'user:7', { base64: '/wBh' }]) {
    assert.deepEqual(wordOfId(wordId(word)), word);
  }
});
