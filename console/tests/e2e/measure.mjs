// How long the pages take with very many keys. No test: it prints what it saw.
//
//   PANTALA=../target/release/pantala KEYS=10000000 node tests/e2e/measure.mjs
//
//   first   from the act to the first result in the page
//   whole   to the end of what the act does
//   frame   the longest time without a frame meanwhile: how long the page was stuck

import { Browser } from './browser.mjs';
import { Server } from './server.mjs';

const KEYS = Number(process.env.KEYS ?? 10_000_000);
const FOLDER = 100_000;
const DOOMED = 50_000;
const PATIENCE_MS = 40_000;
/** Tests in words of the page. */
const ROW = `document.querySelector('[role=treeitem]')`;
const FIELD = `'input[type=search]'`;
const isIdle = `!says('Stop')`;

const server = await Server.begin('--enable-debug-command', 'yes');
const browser = await Browser.begin();
try {
  await fill();
  console.log(`${KEYS} keys\n${'what'.padEnd(44)} first    whole    frame (ms)`);
  await measureKeys();
  await measureSamples();
  await measureDeletion();
} finally {
  await browser.end();
  await server.end();
}

async function fill() {
  await server.run(['DEBUG', 'POPULATE', KEYS - FOLDER - DOOMED]);
  await server.run(['DEBUG', 'POPULATE', FOLDER, 'folder']);
  await server.run(['DEBUG', 'POPULATE', DOOMED, 'doomed']);
  const few = [];
  for (let index = 0; index < 5; index += 1) few.push(['SET', `needle:${index}`, 'x']);
  for (let index = 0; index < 200; index += 1) few.push(['HSET', `user:${index}`, 'name', index]);
  await server.run(...few);
}

/** A page that may write, with functions that tests of text need. */
async function opened(path) {
  const page = await browser.page(server.address, path);
  page.setDefaultTimeout(300_000);
  await page.evaluate(() => {
    globalThis.says = (pattern, where = 'main') =>
      new RegExp(pattern).test(document.querySelector(where)?.textContent ?? '');
    globalThis.press = (name) =>
      [...document.querySelectorAll('button')].find((one) => one.textContent === name).click();
    globalThis.put = (label, text) => {
      const field = document.querySelector(label);
      field.value = text;
      field.dispatchEvent(new InputEvent('input', { bubbles: true }));
      field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    };
  });
  return page;
}

/** Does an act and waits for its first result and its end, all three in words of the page. */
async function measure(page, what, act, isFirst, isWhole) {
  // As text, for the page's policy forbids to make a function of text there.
  const [first, whole, frame] = await page.evaluate(`(async () => {
    const frameOf = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const began = performance.now();
    let [first, longest, last] = [0, 0, began];
    ${act};
    for (;;) {
      await frameOf();
      const now = performance.now();
      longest = Math.max(longest, now - last);
      last = now;
      if (first === 0 && (${isFirst})) first = now - began;
      if (first > 0 && (${isWhole})) return [first, now - began, longest];
      if (now - began > ${PATIENCE_MS}) return [first, Number.NaN, longest];
    }
  })()`);
  const numbers = [first, whole, frame].map((ms) => ms.toFixed(0).padStart(6));
  console.log(`${what.padEnd(44)}${numbers.join('   ')}`);
}

async function measureKeys() {
  const page = await opened('overview');
  await page.locator('.tile', { hasText: 'Clients' }).getByText(/[1-9]/).first().waitFor();
  const find = (text) => `put(${FIELD}, '${text}')`;
  await measure(page, 'Keys: open', `location.hash = '#/keys'`, ROW, `${ROW} && ${isIdle}`);
  await measure(
    page,
    'Keys: open a prefix of 5,000',
    `document.querySelector('.row.folder').click()`,
    `document.querySelector('.row.key .badge:not(.type-)')`,
    'true',
  );
  await measure(page, 'Keys: a name', find('key:4711'), `says('[1-9]', '.progress b')`, 'true');
  await measure(
    page,
    'Keys: five of all by a pattern',
    find('needle:*'),
    `says('needle', '.tree')`,
    `says('^.*5 keys(?! so far)', '.progress')`,
  );
  await measure(
    page,
    'Keys: 100,000 of all by a pattern',
    find('folder:*'),
    `says('folder', '.tree')`,
    `says('100,000 keys', '.progress') || (${isIdle} && says('Look further'))`,
  );
  await measure(
    page,
    'Keys: open a prefix of 100,000',
    `document.querySelector('.row.folder').click()`,
    `document.querySelector('.row.key .badge:not(.type-)')`,
    'true',
  );
}

async function measureSamples() {
  const page = await opened('memory');
  await measure(page, 'Memory: by type, live', '0', `says('Keys take')`, 'true');
  const prefixes = `says('key:', '[aria-label=Prefixes]')`;
  await measure(page, 'Memory: by prefix', `press('Analyse')`, prefixes, isIdle);
  const found = (table) => `document.querySelector('[aria-label="${table}"] tbody a')`;
  await page.evaluate(() => {
    location.hash = '#/hot-and-big';
  });
  await page.getByRole('button', { name: 'Look', exact: true }).waitFor();
  await measure(page, 'Big keys', `press('Look')`, found('Big keys'), isIdle);
  await page.getByRole('button', { name: 'Unlock' }).click();
  await page.locator('.pill.write').waitFor();
  let ended = false;
  const load = (async () => {
    while (!ended) await server.run(['GET', 'needle:1']);
  })();
  const hot = `says('needle:1', 'main')`;
  await measure(page, 'Hot keys', `press('Measure 10 s')`, hot, `!says('measuring')`);
  ended = true;
  await load;
}

async function measureDeletion() {
  const page = await opened('keys');
  await page.getByRole('button', { name: 'Unlock' }).click();
  await page.locator('.pill.write').waitFor();
  await page.getByRole('button', { name: 'Delete many' }).click();
  await page.getByRole('dialog').locator('input').first().fill('doomed:*');
  const told = (text) => `says('${text}', 'dialog')`;
  const isDone = told('\\\\d keys match(?! so far)');
  await measure(page, 'Delete: count', `press('Count')`, told('[1-9,0]+ keys match'), isDone);
  await page.getByLabel(/to confirm/).fill(String(DOOMED));
  const isDeleted = told('keys were deleted');
  const isSome = `${told('[1-9]\\\\S* of ')} || ${isDeleted}`;
  await measure(page, 'Delete: 50,000', `press('Delete')`, isSome, isDeleted);
}
