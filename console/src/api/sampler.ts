// A sample of the keys: what SCAN meets first. The keyspace is ordered by hashes, so that this is
// about as good as chance. Each key costs three short commands; the budget bounds them.
//
// Tests: tests/unit/sampler.test.ts.

import { asNumber, asText, errorOf, type Reply, type Word } from './reply';
import { type Budget, type Run, Scan } from './scan';

export interface Sampled {
  key: Word;
  type: string;
  bytes: number;
  /** Milliseconds; -1: it does not expire. */
  ttlMs: number;
}

/** What one message asks about; the next is under way while one is added up. */
const BATCH_KEYS = 200;

export type AskAll = (all: Word[][], db: number) => Promise<Reply[]>;

export class Sampler {
  /** Keys that were looked at. */
  looked = 0;
  private readonly scan: Scan;
  private stopped = false;
  /** What SCAN has named and a stop has left. */
  private rest: Word[] = [];

  constructor(
    run: Run,
    private readonly askAll: AskAll,
    private readonly db: number,
    pattern = '',
  ) {
    this.scan = new Scan(run, { db, pattern, type: '' }, false);
  }

  get done(): boolean {
    return this.scan.done && this.rest.length === 0;
  }

  async step(budget: Budget, found: (batch: Sampled[]) => void): Promise<void> {
    this.stopped = false;
    await this.lookAtAll(this.rest, found);
    if (!this.stopped) await this.scan.step(budget, (keys) => this.lookAtAll(keys, found));
  }

  private async lookAtAll(keys: Word[], found: (batch: Sampled[]) => void): Promise<void> {
    const look = (at: number) => lookAt(keys.slice(at, at + BATCH_KEYS), this.askAll, this.db);
    let next = look(0);
    for (let at = 0; at < keys.length; at += BATCH_KEYS) {
      this.rest = keys.slice(at);
      if (this.stopped) return;
      const now = next;
      next = look(at + BATCH_KEYS);
      // Whether it fails is seen in its own turn.
      next.catch(() => {});
      const batch = await now;
      this.looked += Math.min(BATCH_KEYS, keys.length - at);
      found(batch);
    }
    this.rest = [];
  }

  stop(): void {
    this.stopped = true;
    this.scan.stop();
  }
}

/** What keys of one database are; one that has gone in between is left out. */
export async function lookAt(keys: Word[], askAll: AskAll, db: number): Promise<Sampled[]> {
  const asked = keys.flatMap((key): Word[][] => [
    ['MEMORY', 'USAGE', key],
    ['TYPE', key],
    ['PTTL', key],
  ]);
  const replies = await askAll(asked, db);
  return keys.flatMap((key, index) => {
    const [bytes, type, ttl] = replies.slice(index * 3, index * 3 + 3);
    if (bytes === null || bytes === undefined || errorOf(bytes) !== undefined) return [];
    return [{ key, type: asText(type), bytes: asNumber(bytes), ttlMs: asNumber(ttl) }];
  });
}
