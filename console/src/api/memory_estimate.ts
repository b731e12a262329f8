// What the keys take by type and by database: the server counts no such figure, so it is estimated
// from a sample that is renewed in rounds.
//
//   each round   SCAN goes on in every database  ->  keys, bytes by type   (the last ROUNDS count)
//   each moment  bytes = keys of the database now x mean bytes of a sampled key
//
// Invariants
// 1. A round looks at about ROUND_KEYS keys, whatever there is.
// 2. A key of more than a hundredth of the used memory counts once and is looked at again each
//    round: a single large value among millions of small ones is not multiplied.
// 3. Databases beyond the MAX_DATABASES with most keys are left out.
//
// Tests: tests/unit/memory_estimate.test.ts.

import type { DatabaseFigures } from './figures';
import { wordId } from './reply';
import { type AskAll, lookAt, type Sampled, Sampler } from './sampler';
import type { Run } from './scan';

export const ROUND_KEYS = 1_000;
export const MAX_DATABASES = 32;
const ROUND_MS = 5_000;
const ROUNDS = 6;
/** So many of a round's keys are of each database, also of a small one. */
const LEAST_KEYS = 10;
const LARGE_SHARE = 1 / 100;
const MAX_LARGE = 100;

export interface MemoryParts {
  byType: Record<string, number>;
  byDb: Record<number, number>;
  bytes: number;
}

/** What one round saw of one database; large keys are counted, their bytes are not. */
interface Seen {
  keys: number;
  bytes: Map<string, number>;
}

interface Walk {
  sampler: Sampler;
  seen: Seen[];
}

export class MemoryEstimate {
  private readonly walks = new Map<number, Walk>();
  /** By database and key. */
  private large = new Map<string, Sampled & { db: number }>();
  private stopped = false;

  constructor(
    private readonly run: Run,
    private readonly askAll: AskAll,
  ) {}

  /** Keys that the estimate rests on. */
  get looked(): number {
    let keys = 0;
    for (const { seen } of this.walks.values()) for (const one of seen) keys += one.keys;
    return keys;
  }

  async round(databases: DatabaseFigures[], usedBytes: number): Promise<void> {
    this.stopped = false;
    const largeBytes = usedBytes * LARGE_SHARE;
    await this.lookAtLarge(largeBytes);
    const chosen = largestOf(databases);
    for (const db of this.walks.keys()) {
      if (!chosen.some((one) => one.db === db)) this.walks.delete(db);
    }
    for (const [db, keys] of allotted(chosen, ROUND_KEYS - this.large.size)) {
      if (this.stopped) return;
      await this.look(db, keys, largeBytes);
    }
  }

  /** Ends a round that is under way after its present commands. */
  stop(): void {
    this.stopped = true;
    for (const { sampler } of this.walks.values()) sampler.stop();
  }

  /** The parts for so many keys as there are now. */
  parts(databases: DatabaseFigures[]): MemoryParts {
    const parts: MemoryParts = { byType: {}, byDb: {}, bytes: 0 };
    const add = (db: number, type: string, bytes: number) => {
      parts.byType[type] = (parts.byType[type] ?? 0) + bytes;
      parts.byDb[db] = (parts.byDb[db] ?? 0) + bytes;
      parts.bytes += bytes;
    };
    for (const { db, keys } of largestOf(databases)) {
      const seen = this.walks.get(db)?.seen ?? [];
      const looked = seen.reduce((sum, one) => sum + one.keys, 0);
      for (const one of looked > 0 ? seen : []) {
        for (const [type, bytes] of one.bytes) add(db, type, (bytes * keys) / looked);
      }
      for (const one of this.large.values()) if (one.db === db) add(db, one.type, one.bytes);
    }
    return parts;
  }

  private async look(db: number, keys: number, largeBytes: number): Promise<void> {
    const before = this.walks.get(db);
    const isNew = before === undefined || before.sampler.done;
    const sampler = isNew ? new Sampler(this.run, this.askAll, db) : before.sampler;
    const walk: Walk = { sampler, seen: before?.seen ?? [] };
    this.walks.set(db, walk);
    const seen: Seen = { keys: 0, bytes: new Map() };
    await sampler.step({ keys, ms: ROUND_MS }, (batch) => {
      for (const one of batch) this.count(db, one, seen, largeBytes);
    });
    // A database that one round walks through is known exactly.
    if (isNew && sampler.done) walk.seen = [seen];
    else walk.seen = [...walk.seen, seen].slice(-ROUNDS);
  }

  private count(db: number, one: Sampled, seen: Seen, largeBytes: number): void {
    seen.keys += 1;
    const id = `${db} ${wordId(one.key)}`;
    const isLarge = one.bytes > largeBytes;
    if (isLarge && (this.large.has(id) || this.large.size < MAX_LARGE)) {
      this.large.set(id, { ...one, db });
    } else {
      seen.bytes.set(one.type, (seen.bytes.get(one.type) ?? 0) + one.bytes);
    }
  }

  private async lookAtLarge(largeBytes: number): Promise<void> {
    const still: typeof this.large = new Map();
    for (const db of new Set([...this.large.values()].map((one) => one.db))) {
      const keys = [...this.large.values()].filter((one) => one.db === db).map((one) => one.key);
      for (const one of await lookAt(keys, this.askAll, db)) {
        if (one.bytes > largeBytes) still.set(`${db} ${wordId(one.key)}`, { ...one, db });
      }
    }
    this.large = still;
  }
}

const largestOf = (databases: DatabaseFigures[]) =>
  databases
    .filter(({ keys }) => keys > 0)
    .sort((a, b) => b.keys - a.keys)
    .slice(0, MAX_DATABASES);

/** How many keys of each database a round looks at: by their share, but some of each. */
export function allotted(databases: DatabaseFigures[], budget: number): Map<number, number> {
  const all = databases.reduce((sum, { keys }) => sum + keys, 0);
  const shared = budget - LEAST_KEYS * databases.length;
  return new Map(
    databases.map(({ db, keys }) => [db, LEAST_KEYS + Math.floor((shared * keys) / all)]),
  );
}
