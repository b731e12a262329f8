// What is changed is what was seen, in the database that was named; what is saved is what was typed.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Browser } from './browser.mjs';
import { Server } from './server.mjs';
import { button, dialog, openKey, type, unlock } from './steps.mjs';

let server;
let browser;

before(async () => {
  server = await Server.begin();
  browser = await Browser.begin();
});

after(async () => {
  await browser.end();
  await server.end();
});

afterEach(() => browser.closePages());

const open = (path) => browser.page(server.address, path);

test('the command line stays in its database when it is unlocked', async () => {
  const page = await open('command-line');
  const prompt = page.locator('.command-input .prompt');
  await type(page, 'SELECT 3');
  await prompt.getByText('db3>').waitFor();
  await unlock(page);
  await type(page, 'SET place:a here');
  await page.getByText('OK', { exact: true }).nth(1).waitFor();
  assert.equal(await prompt.textContent(), 'db3>');
  assert.match(await server.run(['SELECT', '3'], ['GET', 'place:a']), /here/);
  await type(page, 'MULTI');
  await page.getByText('OK', { exact: true }).nth(2).waitFor();
  await button(page, 'Lock').click();
  await page.getByText(/ended within MULTI/).waitFor();
});

test('Back and an edited address lead to the database they name', async () => {
  await server.run(['SET', 'both:a', 'zero'], ['SELECT', '3'], ['SET', 'both:a', 'three']);
  const page = await unlock(await open('keys?db=0&find=both:a'));
  await openKey(page, 'both:a');
  await page.getByText('zero', { exact: true }).waitFor();
  await page.goto(`${server.address}/#/keys?db=3&find=both:a&key=%3Dboth:a`);
  await page.getByText('three', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Database').inputValue(), '3');
  await page.goBack();
  await page.getByText('zero', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Database').inputValue(), '0');
  await page.goForward();
  await page.getByText('three', { exact: true }).waitFor();
  await button(page, 'Delete').click();
  await dialog(page).getByRole('heading', { name: 'in database 3' }).waitFor();
  await button(dialog(page), 'Delete').click();
  await page.getByText('Deleted.').waitFor();
  await page.getByText('No key matches.').waitFor();
  assert.match(
    await server.run(['EXISTS', 'both:a'], ['SELECT', '3'], ['EXISTS', 'both:a']),
    /:1\r.*:0/s,
  );
});

test('the text of the search follows the address', async () => {
  await server.run(['SET', 'sought:one', 'x'], ['SET', 'sought:two', 'x']);
  const page = await open('keys?db=0&find=sought:one');
  await page.getByRole('treeitem', { name: 'sought:one' }).waitFor();
  await page.goto(`${server.address}/#/keys?db=0&find=sought:two`);
  await page.getByRole('treeitem', { name: 'sought:two' }).waitFor();
  assert.equal(await page.getByRole('searchbox').inputValue(), 'sought:two');
  await page.goto(`${server.address}/#/keys?db=none&find=sought:two`);
  await page.waitForURL(/db=0/);
});

test('JSON is shown and copied with the numbers it has', async () => {
  await server.run(['SET', 'json:a', '{"id":12345678901234567890,"one":1.0}']);
  const page = await open('keys?db=0&find=json:a');
  await openKey(page, 'json:a');
  const text = '{\n  "id": 12345678901234567890,\n  "one": 1.0\n}';
  await page.getByText('"id": 12345678901234567890').waitFor();
  assert.equal(await page.getByLabel('Value', { exact: true }).textContent(), text);
  await button(page, 'Copy').click();
  await page.getByText('Copied.').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
});

test('line ends outlive a change', async () => {
  const text = (...lines) => Buffer.from(lines.join(''));
  await server.run(
    ['SET', 'ends:crlf', text('one\r\n', 'two\r\n')],
    ['SET', 'ends:mixed', text('one\r', 'C:\\two\n')],
    ['SET', 'ends:name\nof two lines', 'x'],
  );
  const page = await unlock(await open('keys?db=0&find=ends:crlf'));
  await openKey(page, 'ends:crlf');
  const field = dialog(page).locator('textarea');
  await button(page, 'Change').click();
  assert.equal(await field.inputValue(), 'one\ntwo\n');
  await field.press('Control+End');
  await page.keyboard.type('three');
  await button(dialog(page), 'Save').click();
  await page.getByText('Saved.').waitFor();
  assert.match(await server.run(['GET', 'ends:crlf']), /one\r\ntwo\r\nthree\r\n/);
  await openKey(page, 'ends:mixed');
  await button(page, 'Change').click();
  assert.equal(await field.inputValue(), 'one\\rC:\\\\two\n');
  await field.press('Control+End');
  await page.keyboard.type('three');
  await button(dialog(page), 'Save').click();
  await dialog(page).waitFor({ state: 'detached' });
  assert.match(await server.run(['GET', 'ends:mixed']), /one\rC:\\two\nthree\r\n/);
  await openKey(page, 'ends:name');
  await button(page, 'Rename').click();
  const name = dialog(page).getByLabel(/New name/);
  assert.equal(await name.inputValue(), 'ends:name\\nof two lines');
  await name.fill('ends:name\\nof two other lines');
  await button(dialog(page), 'Rename').click();
  await dialog(page).waitFor({ state: 'detached' });
  assert.match(await server.run(['EXISTS', 'ends:name\nof two other lines']), /:1/);
});

test('Refresh reads the value again', async () => {
  const command = (text) => text.split(' ');
  await server.run(
    command('SET fresh:string before'),
    command('HSET fresh:hash field before'),
    command('XADD fresh:stream 1-1 field before'),
    command('XGROUP CREATE fresh:stream group 0'),
  );
  const page = await open('keys?db=0&find=fresh:*');
  await openKey(page, 'fresh:string');
  await page.getByText('before', { exact: true }).waitFor();
  await server.run(command('SET fresh:string behind'));
  await button(page, 'Refresh').click();
  await page.getByText('behind', { exact: true }).waitFor();
  await openKey(page, 'fresh:hash');
  await page.getByRole('cell', { name: 'before' }).waitFor();
  await server.run(command('HSET fresh:hash field behind'));
  await button(page, 'Refresh').click();
  await page.getByRole('cell', { name: 'behind' }).waitFor();
  await openKey(page, 'fresh:stream');
  await page.getByRole('cell', { name: 'field before' }).waitFor();
  await server.run(command('XADD fresh:stream 2-1 field behind'), command('XDEL fresh:stream 1-1'));
  await button(page, 'Refresh').click();
  await page.getByRole('cell', { name: 'field behind' }).waitFor();
  await button(page, 'Groups').click();
  await page.getByRole('cell', { name: 'group', exact: true }).click();
  await page.getByText('No consumer.').waitFor();
  await server.run(command('XREADGROUP GROUP group worker STREAMS fresh:stream >'));
  await button(page, 'Refresh').click();
  await page.getByRole('cell', { name: 'worker' }).first().waitFor();
});

test('a field or a score that has changed meanwhile is not overwritten', async () => {
  const command = (text) => text.split(' ');
  await server.run(
    command('HSET seen:hash field first'),
    command('HPEXPIRE seen:hash 9000000 FIELDS 1 field'),
    command('ZADD seen:zset 0.1 member inf most'),
  );
  const page = await unlock(await open('keys?db=0&find=seen:*'));
  const change = async (cell, what, value) => {
    await page.getByRole('cell', { name: cell, exact: true }).click();
    await button(dialog(page), `Change ${what}`).click();
    await dialog(page).locator('input, textarea').fill(value);
  };
  const save = () => button(dialog(page), 'Save').click();
  const refused = async () => {
    await save();
    await dialog(page).getByText('changed meanwhile').waitFor();
    await button(dialog(page), 'Cancel').click();
  };
  await openKey(page, 'seen:hash');
  await change('first', 'value', 'mine');
  await save();
  await page.getByRole('cell', { name: 'mine', exact: true }).waitFor();
  assert.match(await server.run(command('HPTTL seen:hash FIELDS 1 field')), /:8\d{6}/);
  await change('mine', 'value', 'mine again');
  await server.run(command('HSET seen:hash field theirs'));
  await refused();
  assert.match(await server.run(command('HGET seen:hash field')), /theirs/);
  await openKey(page, 'seen:zset');
  await change('0.1', 'score', '0.2');
  await save();
  await page.getByRole('cell', { name: '0.2', exact: true }).waitFor();
  await change('inf', 'score', '1e300');
  await save();
  await page.getByRole('cell', { name: '1e+300', exact: true }).waitFor();
  await change('0.2', 'score', '7');
  await server.run(command('ZADD seen:zset 5 member'));
  await refused();
  assert.match(await server.run(command('ZSCORE seen:zset member')), /5/);
});

test('a line with a password is not kept', async () => {
  const page = await open('command-line');
  await page.evaluate(() => localStorage.setItem('history', '["PING","AUTH old"]'));
  await page.reload();
  await type(page, 'CONFIG SET maxmemory 1gb requirepass hidden');
  await page.getByText(/log in first/).waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem('history')), '["PING"]');
});

test('a hash is copied with the deadlines of its fields, a stream with its groups', async () => {
  const command = (text) => text.split(' ');
  await server.run(
    command('HSET copied:hash a 1 b 2'),
    command('HPEXPIREAT copied:hash 33177117420499 FIELDS 1 b'),
    command('XADD copied:stream 1-1 f v'),
    command('XGROUP CREATE copied:stream group 0'),
    command('XREADGROUP GROUP group worker STREAMS copied:stream >'),
  );
  const page = await open('keys?db=0&find=copied:*');
  const copied = async (name) => {
    await openKey(page, name);
    await page.evaluate(() => navigator.clipboard.writeText(''));
    await button(page, 'Copy as command').click();
    const text = () => page.evaluate(() => navigator.clipboard.readText());
    while ((await text()) === '');
    return (await text()).split('\n');
  };
  const hash = await copied('copied:hash');
  assert.equal(hash[1], 'HPEXPIREAT copied:hash 33177117420499 FIELDS 1 b');
  const lines = await copied('copied:stream');
  assert.deepEqual(lines, [
    'XADD copied:stream 1-1 f v',
    'XGROUP CREATE copied:stream group 1-1 ENTRIESREAD 1',
  ]);
  await server.run(command('DEL copied:stream copied:hash'));
  await server.run(...[...hash, ...lines].map(command));
  const deadlines = await server.run(command('HPEXPIRETIME copied:hash FIELDS 2 a b'));
  assert.match(deadlines, /:-1\r\n:33177117420499/);
});

test('no page asked another place, broke its policy, or threw', () => {
  assert.deepEqual(browser.faults, []);
});
