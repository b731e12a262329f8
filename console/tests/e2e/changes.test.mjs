// What is changed is what was seen, in the database that was named; what is saved is what was typed.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Browser } from './browser.mjs';
import { Server } from './server.mjs';
import { button, type, unlock } from './steps.mjs';

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

test('no page asked another place, broke its policy, or threw', () => {
  assert.deepEqual(browser.faults, []);
});
