import assert from 'node:assert/strict';
import test from 'node:test';
import { type Reply, TooLargeError, type Word } from '../../src/api/reply';
import { literal, nameOf, patternOf, Scan } from '../../src/api/scan';

const SCOPE = { db: 2, pattern: 'a*', type: 'hash' };

/** Answers SCAN with these pages, and keeps what was asked. */
function server(pages: string[][]) {
  const asked: Word[][] = [];
  const run = async (words: Word[], db?: number): Promise<Reply> => {
    assert.equal(db, 2);
    asked.push(words);
    const at = Number(words[1]);
    return [String(at + 1 === pages.length ? 0 : at + 1), pages[at] ?? []];
  };
  return { asked, run };
}

const WIDE = { keys: 1_000_000, ms: 1_000_000 };

test('a walk ends with the cursor 0 and leaves out doubles', async () => {
  const { asked, run } = server([['a1', 'a2'], [], ['a2', 'a3']]);
  const scan = new Scan(run, SCOPE, true, () => 0);
  await scan.step(WIDE);
  assert.ok(scan.done);
  assert.deepEqual(scan.keys, ['a1', 'a2', 'a3']);
  assert.deepEqual(asked[0], ['SCAN', '0', 'COUNT', '500', 'MATCH', 'a*', 'TYPE', 'hash']);
});

test('COUNT grows while replies come quickly, to its limit, and not else', async () => {
  const pages = Array.from({ length: 10 }, () => []);
  const quick = server(pages);
  await new Scan(quick.run, SCOPE, true, () => 0).step(WIDE);
  const counts = quick.asked.map((words) => words[3]);
  assert.deepEqual(counts.slice(0, 3), ['500', '1000', '2000']);
  assert.deepEqual(counts.slice(-3), ['64000', '100000', '100000']);
  const long = Array.from({ length: 6_000 }, (_, index) => `a${index}`);
  const full = server([[], long, [], []]);
  await new Scan(full.run, SCOPE, true, () => 0).step(WIDE);
  assert.deepEqual(
    full.asked.map((words) => words[3]),
    ['500', '1000', '500', '1000'],
  );
  const slow = server(pages);
  let clock = 0;
  await new Scan(slow.run, SCOPE, true, () => (clock += 60)).step(WIDE);
  assert.equal(slow.asked.at(-1)?.[3], '500');
});

test('a step ends when its budget is spent, and the next goes on', async () => {
  const { run } = server([['a1'], ['a2'], ['a3']]);
  const scan = new Scan(run, SCOPE, true, () => 0);
  await scan.step({ keys: 1, ms: 1_000 });
  assert.deepEqual(scan.keys, ['a1']);
  assert.ok(!scan.done);
  await scan.step(WIDE);
  assert.deepEqual(scan.keys, ['a1', 'a2', 'a3']);
});

test('a key that was found by its name is not found again', async () => {
  const { run } = server([['a1'], ['a2']]);
  const scan = new Scan(run, SCOPE, true, () => 0);
  assert.deepEqual(scan.add(['a2']), ['a2']);
  await scan.step(WIDE);
  assert.deepEqual(scan.keys, ['a2', 'a1']);
});

test('without a filter no more is asked for than the budget has', async () => {
  const { asked, run } = server([['a1'], ['a2'], ['a3']]);
  const all = { db: 2, pattern: '', type: '' };
  await new Scan(run, all, true, () => 0).step({ keys: 2, ms: 1_000 });
  assert.deepEqual(
    asked.map((words) => words[3]),
    ['2', '1'],
  );
});

test('when names are too long for one reply, fewer are asked for', async () => {
  const { asked, run } = server([['a1']]);
  const least = async (words: Word[], db?: number): Promise<Reply> => {
    if (Number(words[3]) > 5) throw new TooLargeError('too much');
    return run(words, db);
  };
  const scan = new Scan(least, SCOPE, true, () => 0);
  await scan.step(WIDE);
  assert.deepEqual(scan.keys, ['a1']);
  assert.equal(asked[0]?.[3], '5');
});

test('a stopped step ends after its call', async () => {
  const { asked, run } = server([['a1'], ['a2'], ['a3']]);
  const scan = new Scan(run, SCOPE, false, () => 0);
  await scan.step(WIDE, () => scan.stop());
  assert.equal(asked.length, 1);
  assert.deepEqual(scan.keys, []);
});

test('plain text is looked for anywhere, a pattern is left as it is', () => {
  assert.equal(patternOf(' user '), '*user*');
  assert.equal(patternOf('user:*'), 'user:*');
  assert.equal(patternOf('*'), '');
  assert.equal(patternOf(''), '');
  assert.equal(nameOf(' user '), 'user');
  assert.equal(nameOf('user:*'), undefined);
  assert.equal(nameOf(' '), undefined);
  assert.equal(literal('a*b[c]\\'), 'a\\*b\\[c\\]\\\\');
});
