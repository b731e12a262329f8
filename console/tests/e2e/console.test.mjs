// The console in a browser, before a real server. Each test has a page of its own; all of them have
// one server, whose keys of a prefix belong to one test.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { Browser, PHONE, WIDE } from './browser.mjs';
import { Client, freePort, Server } from './server.mjs';
import { button, dialog, openKey, unlock } from './steps.mjs';

const PAGES = [
  'overview',
  'keys',
  'command-line',
  'clients',
  'slow-log',
  'hot-and-big',
  'memory',
  'publish-subscribe',
  'persistence',
  'replication',
  'configuration',
];

let server;
let browser;

before(async () => {
  server = await Server.begin();
  browser = await Browser.begin();
  const fill = [];
  for (let index = 0; index < 300; index += 1) {
    fill.push(['SET', `tree:${index % 3}:${index}`, `value ${index}`]);
    fill.push(['HSET', 'types:hash', `field:${index}`, `value ${index}`]);
    fill.push(['RPUSH', 'types:list', `element ${index}`]);
    fill.push(['ZADD', 'types:zset', index, `member:${index}`]);
    fill.push(['XADD', 'types:stream', `${index + 1}-1`, 'order', index]);
    fill.push(['SET', `bulk:${index}`, 'x']);
  }
  fill.push(['SADD', 'types:set', 'a', 'b', 'c']);
  fill.push(['SET', 'types:json', '{"deep":{"list":[1,2]}}']);
  fill.push(['SET', 'types:binary', Buffer.from([0, 255, 1])]);
  fill.push(['XGROUP', 'CREATE', 'types:stream', 'billing', '0']);
  fill.push([
    'XREADGROUP',
    'GROUP',
    'billing',
    'worker',
    'COUNT',
    '3',
    'STREAMS',
    'types:stream',
    '>',
  ]);
  await server.run(...fill);
});

after(async () => {
  await browser.end();
  await server.end();
});

afterEach(() => browser.closePages());

const open = (path, how) => browser.page(server.address, path, how);
const unlocked = async (path) => unlock(await open(path));

test('the overview shows what happens', async () => {
  const page = await open('overview');
  await page.getByRole('heading', { name: 'Commands', exact: true }).waitFor();
  assert.equal(await page.locator('figure.chart canvas').count(), 9);
  const tile = page.locator('.tile', { hasText: 'Clients' });
  await tile.getByText(/[1-9]/).first().waitFor();
  await button(page, 'Pause').click();
  await button(page, 'Go on').waitFor();
});

/** Keeps which texts on a canvas lie in it, and which do not. */
function watchLabels() {
  globalThis.labels = { inside: [], outside: [] };
  const prototype = CanvasRenderingContext2D.prototype;
  const drawn = prototype.fillText;
  prototype.fillText = function fillText(text, x, y) {
    const box = this.measureText(text);
    const { width, height } = this.canvas;
    const [left, right] = [x - box.actualBoundingBoxLeft, x + box.actualBoundingBoxRight];
    const [top, bottom] = [y - box.actualBoundingBoxAscent, y + box.actualBoundingBoxDescent];
    const isInside = left >= 0 && top >= 0 && right <= width && bottom <= height;
    globalThis.labels[isInside ? 'inside' : 'outside'].push(text);
    drawn.call(this, text, x, y);
  };
}

test('the labels of charts lie within them, from the first moment on', async () => {
  const page = await open('overview', { size: { width: 1200, height: 800 }, first: watchLabels });
  // Times are there with the second figures.
  await page.waitForFunction(() => labels.inside.some((text) => /^\d\d:\d\d:\d\d$/.test(text)));
  const { inside, outside } = await page.evaluate(() => globalThis.labels);
  assert.deepEqual(outside, []);
  for (const lowest of ['0/s', '0 %', '1 µs']) assert.ok(inside.includes(lowest), lowest);
});

test('letters lead to pages, and ? tells which', async () => {
  const page = await open('overview');
  await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('k');
  await page.getByRole('heading', { name: 'Keys', exact: true }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('tree');
  assert.equal(await page.getByRole('searchbox', { name: /Find keys/ }).inputValue(), 'tree');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await dialog(page).getByText('to the search field').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await dialog(page).count(), 0);
});

test('the tree of keys is opened by the keyboard', async () => {
  const page = await open('keys?find=tree:*');
  const row = page.getByRole('treeitem', { name: 'tree:' });
  await row.waitFor();
  await page.getByRole('tree').focus();
  for (const key of ['ArrowRight', 'ArrowDown', 'ArrowRight', 'ArrowDown']) {
    await page.keyboard.press(key);
  }
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'tree:0:0' }).waitFor();
  await page.getByText('value 0', { exact: true }).waitFor();
});

test('values are shown by type', async () => {
  const page = await open('keys');
  await openKey(page, 'types:hash');
  await page.getByText(/\d+ shown/).waitFor();
  await openKey(page, 'types:list');
  await page.getByText('element 7', { exact: true }).waitFor();
  await openKey(page, 'types:zset');
  await page.getByText('member:7', { exact: true }).waitFor();
  await openKey(page, 'types:set');
  await page.getByText('3 shown').waitFor();
  await openKey(page, 'types:json');
  await page.getByText('"deep": {').waitFor();
  await openKey(page, 'types:binary');
  await page.getByText('00000000  00 ff 01').waitFor();
  await openKey(page, 'types:stream');
  await page.getByText('300-1', { exact: true }).waitFor();
  await button(page, 'Groups').click();
  await page.getByRole('cell', { name: 'billing' }).click();
  await page.getByRole('cell', { name: 'worker' }).first().waitFor();
});

test('a visitor reads; a change asks to unlock and is made then', async () => {
  const page = await open('keys');
  await page.getByText('read-only', { exact: true }).waitFor();
  await button(page, 'New key').click();
  await page.locator('.pill.write').waitFor();
  const form = dialog(page);
  await form.getByLabel('Name').fill('made:hash');
  await form.getByLabel('Type').selectOption('hash');
  await form.getByLabel('Value').fill('one 1 two "2 2"');
  await button(form, 'Make').click();
  await page.getByRole('cell', { name: '2 2' }).click();
  await button(dialog(page), 'Change value').click();
  await dialog(page).getByLabel('Value').fill('three');
  await button(dialog(page), 'Save').click();
  await page.getByRole('cell', { name: 'three' }).waitFor();
  assert.match(await server.run(['HGET', 'made:hash', 'two']), /three/);
});

test('a key gets a time to live, another name, and an end', async () => {
  await server.run(['SET', 'life:a', 'x']);
  const page = await unlocked('keys');
  await openKey(page, 'life:a');
  await button(page, 'TTL').click();
  await dialog(page)
    .getByLabel(/Seconds/)
    .fill('5000');
  await button(dialog(page), 'Save').click();
  await page.getByText(/^expires in 1 h/).waitFor();
  await button(page, 'Rename').click();
  await dialog(page).getByLabel('New name').fill('life:b');
  await button(dialog(page), 'Rename').click();
  await page.getByRole('heading', { name: 'life:b' }).waitFor();
  await button(page, 'Delete').click();
  await button(dialog(page), 'Delete').click();
  await page.getByText('Deleted.').waitFor();
  await page.getByText('Choose a key to see its value.').waitFor();
  assert.match(await server.run(['EXISTS', 'life:a', 'life:b']), /:0/);
});

test('a value that has changed meanwhile is not overwritten', async () => {
  await server.run(['SET', 'race:a', 'first']);
  const page = await unlocked('keys');
  await openKey(page, 'race:a');
  await button(page, 'Change').click();
  await dialog(page).getByLabel('Value').fill('mine');
  await server.run(['SET', 'race:a', 'theirs']);
  await button(dialog(page), 'Save').click();
  await dialog(page)
    .getByText(/changed meanwhile/)
    .waitFor();
  assert.match(await server.run(['GET', 'race:a']), /theirs/);
});

test('a key that has the very name stands first, a long name is shortened', async () => {
  const long = `exact:${'part/'.repeat(100)}end`;
  await server.run(['SET', 'exact:1', 'x'], ['SET', 'exact:10', 'x'], ['SET', long, 'x']);
  const page = await open('keys?find=exact:1');
  await page.getByRole('treeitem').first().getByText('exact:1', { exact: true }).waitFor();
  await openKey(page, long.slice(0, 160));
  await button(page, 'Whole name').click();
  await page.getByRole('heading', { name: long }).waitFor();
});

test('each database has its own keys', async () => {
  await server.run(['SELECT', '3'], ['SET', 'third:only', 'x']);
  const page = await open('keys?db=0&find=only&key=%3Dtypes%3Aset');
  await page.getByText('No key matches.').waitFor();
  await page.reload();
  await page.getByRole('option', { name: 'db 3' }).waitFor({ state: 'attached' });
  await page.getByLabel('Database').selectOption('3');
  await page.getByRole('treeitem', { name: 'only' }).click();
  await page.getByRole('heading', { name: 'third:only' }).waitFor();
  assert.match(page.url(), /db=3/);
});

test('a key is copied as a command', async () => {
  const page = await open('keys');
  await openKey(page, 'types:set');
  await button(page, 'Copy as command').click();
  await page.getByText('Copied.').waitFor();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(text, /^SADD types:set( [abc]){3}$/);
});

test('many keys are deleted after they were counted and confirmed', async () => {
  const page = await unlocked('keys?find=bulk:*');
  await button(page, 'Delete many').click();
  const form = dialog(page);
  await button(form, 'Count').click();
  await form.getByText('300 keys').waitFor();
  assert.ok(await button(form, 'Delete').isDisabled());
  await form.getByLabel(/to confirm/).fill('300');
  await button(form, 'Delete').click();
  await form.getByText('300 keys were deleted.').waitFor();
  assert.match(await server.run(['EXISTS', 'bulk:1', 'tree:0:0']), /:1/);
});

test('the command line completes, answers and remembers', async () => {
  const page = await open('command-line');
  const line = page.getByRole('combobox', { name: 'Command' });
  await line.pressSequentially('strl');
  await page.getByRole('option', { name: /STRLEN/ }).waitFor();
  await line.press('Tab');
  assert.equal(await line.inputValue(), 'STRLEN ');
  await line.pressSequentially('tree:0:0');
  await line.press('Enter');
  await page.getByText('(integer) 7').waitFor();
  await line.press('ArrowUp');
  assert.equal(await line.inputValue(), 'STRLEN tree:0:0');
  await line.fill('SET a "open');
  await line.press('Enter');
  await page.getByText('A quote is not closed.').waitFor();
  await line.fill('SET cli:a b');
  await line.press('Enter');
  await page.getByText(/log in first/).waitFor();
});

test('a client is watched and killed', async () => {
  const client = new Client(server.port);
  client.send(['CLIENT', 'SETNAME', 'victim']);
  await client.settled();
  const page = await unlocked('clients');
  await page.getByRole('cell', { name: 'victim' }).click();
  await button(page, 'Watch').click();
  const command = page.getByText('SET live:a b');
  while (!(await command.first().isVisible())) {
    client.send(['SET', 'live:a', 'b']);
    await client.settled();
  }
  await button(page, 'Kill').click();
  await button(dialog(page), 'Close it').click();
  await client.closed;
});

test('the traffic of all clients is shown', async () => {
  const page = await unlocked('clients');
  await button(page, 'All traffic').click();
  await button(page, 'Watch').click();
  const command = page.getByText('SET every:a b');
  while (!(await command.first().isVisible())) await server.run(['SET', 'every:a', 'b']);
  await button(page, 'Stop').click();
});

test('slow commands are listed', async () => {
  // One by one: a setting may be in force only for what comes after its reply.
  await server.run(['CONFIG', 'SET', 'slowlog-log-slower-than', '0']);
  await server.run(['GET', 'slow:marker']);
  await server.run(['CONFIG', 'SET', 'slowlog-log-slower-than', '10000']);
  const page = await open('slow-log');
  await page.getByRole('searchbox').fill('slow:marker');
  await page.getByRole('cell', { name: 'GET slow:marker' }).click();
  await dialog(page).getByText('GET slow:marker').waitFor();
});

test('messages of a channel are shown', async () => {
  const page = await open('publish-subscribe');
  await page.getByLabel('Channel or pattern').fill('news');
  await button(page, 'Subscribe').click();
  await button(page, 'Unsubscribe from news').waitFor();
  await page.getByLabel('Channel', { exact: true }).fill('news');
  await page.getByLabel('Message', { exact: true }).fill('hello there');
  await button(page, 'Publish').click();
  await page.getByRole('cell', { name: 'hello there' }).waitFor();
});

test('a setting is changed, and a wrong value is refused with its reason', async () => {
  const page = await unlocked('configuration');
  await page.getByRole('searchbox').fill('slowlog-max-len');
  await button(page, 'Change commandlog-slow-execution-max-len').click();
  const field = page.getByLabel('Value of commandlog-slow-execution-max-len');
  await field.fill('many');
  await button(page, 'Save').click();
  await page
    .getByRole('alert')
    .getByText(/max-len|argument/)
    .waitFor();
  await field.fill('333');
  await button(page, 'Save').click();
  await page.getByText('commandlog-slow-execution-max-len is 333.').waitFor();
  assert.match(await server.run(['CONFIG', 'GET', 'slowlog-max-len']), /333/);
});

test('a snapshot is written', async () => {
  const page = await unlocked('persistence');
  await button(page, 'Write one now').click();
  await page.getByText('A snapshot is being written.').waitFor();
  await page
    .getByRole('row', { name: /BGSAVE .* keys, / })
    .first()
    .waitFor();
  await page.locator('.tile', { hasText: 'Last' }).getByText(/ago/).first().waitFor();
});

test('memory is shown by type and by database while it changes', async () => {
  const page = await open('memory');
  const legend = (title) => page.locator('figure.chart', { hasText: title }).getByRole('listitem');
  await legend('By type').filter({ hasText: 'stream' }).waitFor();
  await legend('By database').filter({ hasText: 'db 0' }).waitFor();
  await legend('By database').filter({ hasText: 'used' }).waitFor();
  await page.getByText(/^Keys take .* Added up from all/).waitFor();
});

test('replication tells the role, the replicas and the history', async () => {
  const page = await open('replication');
  await page.getByText('a primary', { exact: true }).waitFor();
  await page.getByText('No replica is connected.').waitFor();
  await page.getByText(/^[0-9a-f]{40}$/).waitFor();
});

test('memory is added up by prefix, and big keys are found', async () => {
  const page = await open('memory');
  await button(page, 'Analyse').click();
  await page.getByRole('link', { name: 'types:' }).waitFor();
  await page.getByText('There is no memory limit.').waitFor();
  await page.goto(`${server.address}/#/hot-and-big`);
  await button(page, 'Look').click();
  await page.getByRole('link', { name: 'types:stream' }).waitFor();
});

test('hot keys are shown at once, by the sample that the server takes', async () => {
  const set = ['SET', 'hot:sampled', 'x'];
  await server.run(['CONFIG', 'SET', 'hot-keys-sample', '1'], set, set, set);
  const page = await open('hot-and-big');
  const panel = page.locator('.panel', { hasText: 'all commands' });
  await panel.getByRole('link', { name: 'hot:sampled' }).waitFor();
  await server.run(['CONFIG', 'SET', 'hot-keys-sample', '1024']);
});

test('hot keys are measured', async () => {
  const page = await unlocked('hot-and-big');
  await button(page, 'Measure 10 s').click();
  const link = page.getByRole('link', { name: 'hot:a' });
  while (!(await link.first().isVisible())) await server.run(['SET', 'hot:a', 'x']);
});

test('when the server comes back, so does the page', async () => {
  const other = await Server.begin();
  const page = await browser.page(other.address);
  await page.locator('.tile', { hasText: 'Clients' }).waitFor();
  await other.stop();
  await page.getByText('connecting…').waitFor();
  await other.start();
  await page.getByText('connecting…').waitFor({ state: 'detached' });
  await other.end();
});

test('with a password nothing is seen before the login', async () => {
  const other = await Server.begin('--requirepass', 'right');
  const page = await browser.page(other.address, 'keys');
  await page.getByLabel('Password').fill('wrong');
  assert.deepEqual(await browser.serious(page), []);
  await button(page, 'Log in').click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Password').fill('right');
  await button(page, 'Log in').click();
  await page.getByRole('heading', { name: 'Keys', exact: true }).waitFor();
  await page.locator('.pill.write').waitFor();
  await page.getByText('This database has no keys.').waitFor();
  await button(page, 'Lock').click();
  await page.getByLabel('Password').waitFor();
  await other.end();
});

test('the overview tells of a link that is down and of a snapshot that failed', async () => {
  const other = await Server.begin('--replicaof', `127.0.0.1 ${await freePort()}`);
  // A folder in its place: no snapshot can be written there.
  mkdirSync(join(other.directory, 'dump.rdb'));
  const page = await browser.page(other.address, 'overview', { size: PHONE, colours: 'dark' });
  await page.getByText('a replica, 0 replicas').waitFor();
  await page.getByText('The link to the primary is not up').waitFor();
  await other.run(['BGSAVE']);
  const told = page.getByText('The last snapshot failed');
  await told.waitFor();
  assert.deepEqual(await browser.serious(page), []);
  await told.getByRole('link').click();
  await page.locator('.tile.warn', { hasText: 'failed' }).waitFor();
  assert.deepEqual(await browser.serious(page), []);
  await other.end();
});

for (const [name, size, colours] of [
  ['light', WIDE, 'light'],
  ['dark', WIDE, 'dark'],
  ['on a phone', PHONE, 'light'],
]) {
  test(`axe finds nothing serious, ${name}`, async () => {
    const page = await open('overview', { size, colours });
    for (const path of [...PAGES, 'keys?db=0&key=%3Dtypes%3Ahash']) {
      await page.goto(`${server.address}/#/${path}`);
      await page.locator('main h1').waitFor();
      assert.deepEqual(await browser.serious(page), [], path);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${path} is ${wide} px too wide`);
    }
  });
}

test('on a phone the pages are behind a button', async () => {
  const page = await open('overview', { size: PHONE });
  await button(page, 'Pages').click();
  await page.getByRole('link', { name: 'Slow log' }).click();
  await page.getByRole('heading', { name: 'Slow log', exact: true }).waitFor();
});

test('no page asked another place, broke its policy, or threw', () => {
  assert.deepEqual(browser.faults, []);
});
