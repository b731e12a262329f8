import assert from 'node:assert/strict';
import test from 'node:test';
import { editable } from '../../src/api/editable';

/** What a field of the browser makes of a text. */
const inTextarea = (text: string) => text.replace(/\r\n?/g, '\n');
const inInput = (text: string) => text.replace(/[\r\n]/g, '');

test('every text outlives the field it is edited in', () => {
  const texts = [
    '',
    'plain',
    'a\nb\n',
    'a\r\nb\r\n',
    'a\r\nb\nc',
    'a\rb',
    '\r',
    '\n\r',
    '\r\r\n',
    'C:\\new\\row\r',
    '\\r \\n \\\\ \n',
    'tab\t grün \u0000\u2028',
  ];
  for (const text of texts) {
    const name = JSON.stringify(text);
    const long = editable(text, true);
    assert.equal(long.restored(inTextarea(long.shown)), text, name);
    const short = editable(text, false);
    assert.equal(short.restored(inInput(short.shown)), text, name);
  }
});

test('what a field keeps is shown as it is', () => {
  for (const text of ['a\nb', 'back\\slash', 'a\tb']) {
    assert.deepEqual({ ...editable(text, true), restored: null }, { shown: text, restored: null });
  }
  assert.equal(editable('back\\slash', false).shown, 'back\\slash');
  assert.equal(editable('as \\r typed', true).restored('as \\n typed'), 'as \\n typed');
});

test('line ends of CR LF are given back to new lines, too', () => {
  const { shown, restored, hint } = editable('a\r\nb', true);
  assert.equal(shown, 'a\nb');
  assert.equal(restored('a\nb\nc'), 'a\r\nb\r\nc');
  assert.match(hint ?? '', /CR LF/);
});

test('other line ends are written as escapes', () => {
  const { shown, restored, hint } = editable('a\\\rb\nc', true);
  assert.equal(shown, 'a\\\\\\rb\nc');
  assert.equal(restored('\\\\n\\r\\n'), '\\n\r\n');
  assert.match(hint ?? '', /\\r/);
  assert.throws(() => restored('C:\\dir'), /\\d/);
  assert.throws(() => restored('end\\'), /backslash/);
  assert.equal(editable('two\nlines', false).shown, 'two\\nlines');
});
