import assert from 'node:assert/strict';
import test from 'node:test';
import { indented, isJson } from '../../src/api/json_text';

test('numbers, strings and doubled fields stay as they stand', () => {
  const text = '{"id":12345678901234567890,"one":1.0,"e":1E400,"a":"\\u00e9\\/","a":2}';
  assert.equal(
    indented(text),
    `{
  "id": 12345678901234567890,
  "one": 1.0,
  "e": 1E400,
  "a": "\\u00e9\\/",
  "a": 2
}`,
  );
});

test('it is laid out as JSON.stringify does', () => {
  for (const text of [
    '{"deep":{"list":[1,[],{},[{}],"a,b:[c]{d}"]},"t":true,"n":null}',
    ' [ ] ',
    '{\r\n\t"a" : [ 1 , 2 ]\n}',
    '"\\"{"',
    '-1.5',
    '"\\\\"',
    '["\\\\\\"",{"":[""]}]',
  ]) {
    assert.equal(indented(text), JSON.stringify(JSON.parse(text), null, 2), text);
  }
});

test('what is no JSON is refused', () => {
  for (const text of ['', '{', '[1,]', 'NaN', "{'a':1}", '\ufeff{}', '[1] 2']) {
    assert.ok(!isJson(text), text);
    assert.throws(() => indented(text), SyntaxError, text);
  }
});

test('very deep JSON does not grow beyond bounds', () => {
  const depth = 30_000;
  const text = '['.repeat(depth) + ']'.repeat(depth);
  const shown = indented(text);
  assert.ok(shown.length < 20_000_000, String(shown.length));
  assert.equal(shown.replace(/\s/g, ''), text);
});
