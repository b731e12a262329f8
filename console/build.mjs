// Builds the console into crates/admin/assets, where the server's build takes it from.
//
//   node build.mjs            builds
//   node build.mjs --check    fails when what lies there is not what would be built
//   node build.mjs --test     bundles and runs the unit tests
//
// Files are compressed, for they are served so. Compressors differ by version: what counts is
// what is inside, and a file whose inside is the same stays as it is.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const HERE = dirname(fileURLToPath(import.meta.url));
const ASSETS = join(HERE, '../crates/admin/assets');
const MAX_GZIP_BYTES = 200 * 1024;
/** What is part of console.js, each with a licence that wants to be told. */
const PARTS = ['preact', '@preact/signals', '@preact/signals-core', 'uplot'];

const OPTIONS = {
  absWorkingDir: HERE,
  bundle: true,
  format: 'iife',
  target: ['es2022'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  logLevel: 'warning',
};

/** Contents by name of the file. */
async function built() {
  const { outputFiles } = await build({
    ...OPTIONS,
    entryPoints: ['src/main.tsx'],
    outfile: 'console.js',
    minify: true,
    write: false,
  });
  const files = new Map();
  for (const file of outputFiles) files.set(basename(file.path), Buffer.from(file.contents));
  for (const name of ['index.html', 'icon.svg'])
    files.set(name, readFileSync(join(HERE, 'src', name)));
  files.set('licences.txt', Buffer.from(licences()));
  return files;
}

function licences() {
  return PARTS.map((part) => {
    const folder = join(HERE, 'node_modules', part);
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const name = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
    const text = readFileSync(join(folder, name), 'utf8').trim();
    return `${part} ${version}\n\n${text}\n`;
  }).join('\n\n');
}

/** What lies there now, uncompressed. */
function present() {
  const files = new Map();
  for (const name of existsSync(ASSETS) ? readdirSync(ASSETS) : []) {
    const content = readFileSync(join(ASSETS, name));
    const isPacked = name.endsWith('.gz');
    files.set(isPacked ? name.slice(0, -3) : name, isPacked ? gunzipSync(content) : content);
  }
  return files;
}

function differing(wanted, found) {
  const names = new Set([...wanted.keys(), ...found.keys()]);
  return [...names].filter(
    (name) => !(wanted.has(name) && found.get(name)?.equals(wanted.get(name))),
  );
}

function write(wanted) {
  mkdirSync(ASSETS, { recursive: true });
  for (const name of differing(wanted, present())) {
    rmSync(join(ASSETS, name), { force: true });
    rmSync(join(ASSETS, `${name}.gz`), { force: true });
    const content = wanted.get(name);
    if (content) writeFileSync(join(ASSETS, `${name}.gz`), gzipSync(content, { level: 9 }));
  }
}

function tell(wanted) {
  let total = 0;
  for (const [name, content] of wanted) {
    const size = gzipSync(content, { level: 9 }).length;
    total += size;
    console.log(`${name.padEnd(14)} ${content.length} bytes, ${size} compressed`);
  }
  if (total > MAX_GZIP_BYTES) throw new Error(`the console has ${total} bytes compressed`);
}

async function test() {
  const folder = join(HERE, '../target/console-tests');
  rmSync(folder, { recursive: true, force: true });
  const sources = readdirSync(join(HERE, 'tests/unit')).filter((name) => name.endsWith('.test.ts'));
  await build({
    ...OPTIONS,
    entryPoints: sources.map((name) => `tests/unit/${name}`),
    outdir: folder,
    format: 'esm',
    platform: 'node',
    outExtension: { '.js': '.mjs' },
  });
  const files = sources.map((name) => join(folder, name.replace(/\.ts$/, '.mjs')));
  const asked = ['--test', '--test-reporter=tap', ...files];
  const { status } = spawnSync(process.execPath, asked, { stdio: 'inherit' });
  process.exitCode = status ?? 1;
}

if (process.argv.includes('--test')) {
  await test();
} else {
  const wanted = await built();
  tell(wanted);
  if (process.argv.includes('--check')) {
    const stale = differing(wanted, present());
    for (const name of stale) console.log(`FAIL crates/admin/assets: ${name} is not what is built`);
    process.exitCode = stale.length === 0 ? 0 : 1;
  } else {
    write(wanted);
  }
}
