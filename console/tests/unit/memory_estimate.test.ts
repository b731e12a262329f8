import assert from 'node:assert/strict';
import test from 'node:test';
import { allotted, MemoryEstimate, ROUND_KEYS } from '../../src/api/memory_estimate';
import { asText, type Reply, type Word } from '../../src/api/reply';

type Kept = { type: string; bytes: number };

/** Answers as a server with these keys; SCAN gives as many as COUNT says. */
class Fake {
  asked = 0;
  constructor(readonly databases: Map<number, Map<string, Kept>>) {}

  run = async (words: Word[], db = 0): Promise<Reply> => {
    const names = [...(this.databases.get(db)?.keys() ?? [])];
    const [from, wanted] = [Number(words[1]), Number(words[3])];
    const next = from + wanted;
    return [String(next >= names.length ? 0 : next), names.slice(from, next)];
  };

  askAll = async (all: Word[][], db: number): Promise<Reply[]> =>
    all.map((words) => {
      const key = this.databases.get(db)?.get(asText(words.at(-1)));
      if (words[0] === 'MEMORY') {
        this.asked += 1;
        return key ? key.bytes : null;
      }
      return words[0] === 'TYPE' ? { status: key?.type ?? 'none' } : -1;
    });

  sizes = () => [...this.databases].map(([db, { size }]) => ({ db, keys: size }));
  estimate = () => new MemoryEstimate(this.run, this.askAll);
}

function keysOf(count: number, of: (index: number) => Kept): Map<string, Kept> {
  return new Map(Array.from({ length: count }, (_, index) => [`key:${index}`, of(index)]));
}

test('few keys are summed up exactly, by type and by database', async () => {
  const fake = new Fake(
    new Map([
      [0, keysOf(10, (index) => ({ type: index < 4 ? 'hash' : 'string', bytes: 100 }))],
      [3, keysOf(5, () => ({ type: 'hash', bytes: 20 }))],
    ]),
  );
  const estimate = fake.estimate();
  for (let round = 0; round < 3; round += 1) await estimate.round(fake.sizes(), 1e6);
  assert.deepEqual(estimate.parts(fake.sizes()), {
    byType: { hash: 500, string: 600 },
    byDb: { 0: 1000, 3: 100 },
    bytes: 1100,
  });
  assert.equal(estimate.looked, 15);
});

test('a round costs what it may, and many keys are estimated from it', async () => {
  const fake = new Fake(new Map([[0, keysOf(50_000, () => ({ type: 'string', bytes: 64 }))]]));
  const estimate = fake.estimate();
  for (let round = 1; round <= 8; round += 1) {
    await estimate.round(fake.sizes(), 1e9);
    assert.ok(fake.asked <= round * ROUND_KEYS, `${fake.asked} keys in ${round} rounds`);
  }
  assert.equal(estimate.looked, 6 * ROUND_KEYS);
  assert.equal(Math.round(estimate.parts(fake.sizes()).bytes), 50_000 * 64);
  // The keys that there are now count, not those of the round.
  assert.equal(Math.round(estimate.parts([{ db: 0, keys: 100 }]).bytes), 6_400);
});

test('a large key counts once, and no more when it has gone', async () => {
  const keys = keysOf(50_000, (index) => ({ type: 'string', bytes: index === 7 ? 5e6 : 64 }));
  const fake = new Fake(new Map([[0, keys]]));
  const estimate = fake.estimate();
  await estimate.round(fake.sizes(), 1e7);
  const near = (bytes: number) => {
    const error = Math.abs(estimate.parts(fake.sizes()).bytes / bytes - 1);
    assert.ok(error < 0.01, `${error}`);
  };
  near(5e6 + 50_000 * 64);
  await estimate.round(fake.sizes(), 1e7);
  near(5e6 + 50_000 * 64);
  keys.delete('key:7');
  await estimate.round(fake.sizes(), 1e7);
  near(50_000 * 64);
});

test('an emptied database is forgotten', async () => {
  const fake = new Fake(new Map([[2, keysOf(5, () => ({ type: 'set', bytes: 9 }))]]));
  const estimate = fake.estimate();
  await estimate.round(fake.sizes(), 1e6);
  fake.databases.clear();
  assert.deepEqual(estimate.parts(fake.sizes()), { byType: {}, byDb: {}, bytes: 0 });
  await estimate.round(fake.sizes(), 1e6);
  assert.equal(estimate.looked, 0);
});

test('each database has a part of a round, also a small one', () => {
  const sizes = [
    { db: 0, keys: 1_000_000 },
    { db: 1, keys: 50 },
  ];
  const parts = allotted(sizes, 1_000);
  assert.ok((parts.get(1) ?? 0) >= 10);
  assert.ok((parts.get(0) ?? 0) > 900);
  assert.ok([...parts.values()].reduce((a, b) => a + b, 0) <= 1_000);
});
