import assert from 'node:assert/strict';
import test from 'node:test';
import { LineError, lineOf, typed, visible, wordsOf } from '../../src/api/words';

test('words are parted by blanks and kept by quotes', () => {
  assert.deepEqual(wordsOf('  SET  k  v '), ['SET', 'k', 'v']);
  assert.deepEqual(wordsOf('SET "a b" \'c "d"\''), ['SET', 'a b', 'c "d"']);
  assert.deepEqual(wordsOf('SET k ""'), ['SET', 'k', '']);
  assert.deepEqual(wordsOf(''), []);
});

test('escapes within double quotes', () => {
  assert.deepEqual(wordsOf('"a\\n\\t\\"\\\\"'), ['a\n\t"\\']);
  assert.deepEqual(wordsOf('"\\x41\\xff"'), [{ base64: 'Qf8=' }]);
  assert.deepEqual(wordsOf("'it\\'s \\n'"), ["it's \\n"]);
  assert.deepEqual(wordsOf('"grün 🐉"'), ['grün 🐉']);
});

test('a quote that stays open, or has a letter behind it, is refused', () => {
  for (const line of ['"a', "'a", 'SET k "v"x']) assert.throws(() => wordsOf(line), LineError);
});

test('what is typed out is read back', () => {
  const words = [
    'SET',
    'a b',
    '',
    'it\'s "so"',
    'l\nm\u0001',
    'grün',
    '\\',
    { base64: 'AP9cIg==' },
  ];
  assert.deepEqual(wordsOf(lineOf(words)), words);
  assert.equal(typed('user:7'), 'user:7');
  assert.equal(typed({ base64: '/wBh' }), '"\\xff\\x00a"');
});

test('control characters are seen', () => {
  assert.equal(visible('tab\tline\nbell\x07 é'), 'tab\\tline\\nbell\\x07 é');
});
