// The browser: Debian's Chromium, driven by Playwright. What a page may never do is watched: ask
// another place, break its Content-Security-Policy, throw.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const PROGRAM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** What a page says when a request fails on purpose, as a refused login does. */
const EXPECTED = /Failed to load resource|WebSocket connection to/;

export const WIDE = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

export class Browser {
  static async begin() {
    const browser = new Browser();
    browser.inner = await chromium.launch({ executablePath: PROGRAM, args: ['--no-sandbox'] });
    browser.faults = [];
    return browser;
  }

  /** A page in a profile of its own; `first` runs in it before its own scripts. */
  async page(address, path = '', { size = WIDE, colours = 'light', first = () => {} } = {}) {
    const context = await this.inner.newContext({ viewport: size, colorScheme: colours });
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await context.addInitScript(first);
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    page.on('pageerror', (error) => this.faults.push(error.stack));
    page.on('console', (message) => {
      const text = message.text();
      if (message.type() === 'error' && !EXPECTED.test(text)) this.faults.push(text);
    });
    page.on('request', (request) => {
      const { host } = new URL(request.url());
      if (host !== new URL(address).host) this.faults.push(`asks ${request.url()}`);
    });
    await page.goto(`${address}/#/${path}`);
    return page;
  }

  /** Closes what a test has opened: each page takes figures once a second. */
  async closePages() {
    await Promise.all(this.inner.contexts().map((context) => context.close()));
  }

  /** What axe finds serious or critical. */
  async serious(page) {
    // Evaluating is the test's own act: the page's policy does not concern it.
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    return grave.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`);
  }

  async end() {
    await this.inner.close();
  }
}
