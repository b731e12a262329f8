// Walks through the keys by SCAN, in steps with a budget of keys and of time, never by KEYS.
//
// COUNT grows while a reply comes quickly and is short, so that a rare pattern among millions of keys
// needs few round trips. A large COUNT holds no worker: the server runs it beside them, and lets go
// of the keys between some thousand. Tests: tests/unit/scan.test.ts.

import { asArray, asText, asWord, type Reply, TooLargeError, type Word, wordId } from './reply';

export type Run = (words: Word[], db?: number) => Promise<Reply>;

export interface Scope {
  db: number;
  /** A glob; empty: all keys. */
  pattern: string;
  /** Empty: all types. */
  type: string;
}

export interface Budget {
  keys: number;
  ms: number;
}

const FIRST_COUNT = 500;
const LAST_COUNT = 100_000;
/** Keys of one reply that are no burden to the page. */
const FEW_KEYS = 5_000;
const QUICK_MS = 50;
const SLOW_MS = 200;

export class Scan {
  /** What was found, without doubles (SCAN may say a key twice), if it is kept. */
  readonly keys: Word[] = [];
  /** About how many keys the server has looked at. */
  looked = 0;
  done = false;
  private cursor = '0';
  private count = FIRST_COUNT;
  private seen = new Set<string>();
  private stopped = false;

  constructor(
    private readonly run: Run,
    readonly scope: Scope,
    /** Whether the keys are kept, and doubles left out; for very many keys, no. */
    private readonly keeps = true,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Goes on until the budget is spent, the walk is over, or it is stopped; at most one at a time. */
  async step(
    budget: Budget,
    found: (keys: Word[]) => void | Promise<void> = () => {},
  ): Promise<void> {
    const began = this.now();
    let left = budget.keys;
    this.stopped = false;
    while (!this.done && !this.stopped) {
      const keys = await this.call(left);
      await found(keys);
      left -= keys.length;
      if (left <= 0 || this.now() - began >= budget.ms) return;
    }
  }

  /** Ends a step that is under way after its present call. */
  stop(): void {
    this.stopped = true;
  }

  /** A page of keys; names may be so long that only a short page can be sent. */
  private async call(left: number): Promise<Word[]> {
    for (;;) {
      try {
        return await this.page(left);
      } catch (error) {
        if (!(error instanceof TooLargeError) || this.count === 1) throw error;
        this.count = Math.ceil(this.count / 10);
      }
    }
  }

  private async page(left: number): Promise<Word[]> {
    // What is looked at is what is found, unless there is a filter.
    const isPlain = this.scope.pattern === '' && this.scope.type === '';
    const asked = isPlain ? Math.min(this.count, left, FEW_KEYS) : this.count;
    const words: Word[] = ['SCAN', this.cursor, 'COUNT', String(asked)];
    if (this.scope.pattern !== '') words.push('MATCH', this.scope.pattern);
    if (this.scope.type !== '') words.push('TYPE', this.scope.type);
    const began = this.now();
    const [cursor, page] = asArray(await this.run(words, this.scope.db));
    this.looked += asked;
    this.cursor = asText(cursor);
    this.done = this.cursor === '0';
    const all = asArray(page).map(asWord);
    this.adapt(this.now() - began, all.length);
    return this.keeps ? this.add(all) : all;
  }

  private adapt(tookMs: number, found: number): void {
    if (tookMs < QUICK_MS && found < FEW_KEYS) this.count = Math.min(this.count * 2, LAST_COUNT);
    else if (tookMs > SLOW_MS || found > FEW_KEYS) {
      this.count = Math.max(Math.floor(this.count / 2), FIRST_COUNT);
    }
  }

  /** Keeps keys, also such as were found in another way; gives back those that are new. */
  add(keys: Word[]): Word[] {
    const fresh: Word[] = [];
    for (const key of keys) {
      const id = wordId(key);
      if (this.seen.has(id)) continue;
      this.seen.add(id);
      fresh.push(key);
    }
    this.keys.push(...fresh);
    return fresh;
  }
}

/** Text as a pattern that matches it alone. */
export const literal = (text: string): string => text.replace(/[\\*?[\]^]/g, '\\$&');

/** The key that has the name that was typed, if it may be one: neither nothing nor a pattern. */
export function nameOf(typed: string): string | undefined {
  const text = typed.trim();
  return text === '' || /[*?[]/.test(text) ? undefined : text;
}

/** What was typed as a pattern: plain text is looked for anywhere in a key. */
export function patternOf(typed: string): string {
  const name = nameOf(typed);
  if (name !== undefined) return `*${literal(name)}*`;
  const text = typed.trim();
  return text === '*' ? '' : text;
}
