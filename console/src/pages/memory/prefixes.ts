// Sampled keys summed up by prefix, and advice from the sums. Tests: tests/unit/prefixes.test.ts.

import { bytes, count, percent } from '../../api/format';
import { asText } from '../../api/reply';
import type { Sampled } from '../../api/sampler';

export interface Prefix {
  name: string;
  keys: number;
  bytes: number;
  /** Keys that expire. */
  expiring: number;
  nameBytes: number;
  /** Keys by type. */
  types: Map<string, number>;
  largest: Sampled | undefined;
}

/** What the keys of one type take together. */
export interface TypeSum {
  type: string;
  keys: number;
  bytes: number;
}

/** When memory is freed by expiry, soonest first; the last two are later, and never. */
export const EXPIRES = ['within 1 h', 'within 1 d', 'within 7 d', 'later', 'never'] as const;
const EXPIRES_MS = [3_600_000, 86_400_000, 604_800_000, Number.POSITIVE_INFINITY];

export class Prefixes {
  readonly all = new Map<string, Prefix>();
  readonly types = new Map<string, TypeSum>();
  /** Bytes by `EXPIRES`. */
  readonly expires = EXPIRES.map(() => 0);
  keys = 0;
  bytes = 0;

  constructor(
    private readonly depth: number,
    private readonly separator = ':',
  ) {}

  add(sampled: Sampled): void {
    const name = prefixOf(sampled, this.depth, this.separator);
    let prefix = this.all.get(name);
    if (!prefix) {
      const types = new Map<string, number>();
      prefix = { name, keys: 0, bytes: 0, expiring: 0, nameBytes: 0, types, largest: undefined };
      this.all.set(name, prefix);
    }
    this.keys += 1;
    this.bytes += sampled.bytes;
    const until = EXPIRES_MS.findIndex((ms) => sampled.ttlMs <= ms);
    const place = sampled.ttlMs < 0 ? EXPIRES.length - 1 : until;
    this.expires[place] = (this.expires[place] ?? 0) + sampled.bytes;
    const sum = this.types.get(sampled.type) ?? { type: sampled.type, keys: 0, bytes: 0 };
    sum.keys += 1;
    sum.bytes += sampled.bytes;
    this.types.set(sampled.type, sum);
    prefix.keys += 1;
    prefix.bytes += sampled.bytes;
    prefix.nameBytes += asText(sampled.key).length;
    if (sampled.ttlMs >= 0) prefix.expiring += 1;
    prefix.types.set(sampled.type, (prefix.types.get(sampled.type) ?? 0) + 1);
    if (!prefix.largest || sampled.bytes > prefix.largest.bytes) prefix.largest = sampled;
  }
}

/** The first parts of a key; `(no prefix)` of one that has no separator. */
function prefixOf(sampled: Sampled, depth: number, separator: string): string {
  if (typeof sampled.key !== 'string') return '(no text)';
  const parts = sampled.key.split(separator);
  if (parts.length === 1) return '(no prefix)';
  return parts.slice(0, Math.min(depth, parts.length - 1)).join(separator) + separator;
}

export interface Advice {
  text: string;
  how: string;
}

export interface Circumstances {
  used: number;
  rss: number;
  max: number;
  policy: string;
}

/** Fewer keys tell nothing. */
const MIN_KEYS = 50;
const LARGE_BYTES = 1 << 20;
/** More is not read. */
const MAX_ADVICE = 12;

export function adviceOn(prefixes: Prefixes, now: Circumstances): Advice[] {
  const advice = [...onServer(now)];
  const largestFirst = [...prefixes.all.values()].sort((a, b) => b.bytes - a.bytes);
  for (const prefix of largestFirst) {
    if (advice.length >= MAX_ADVICE) break;
    if (prefix.keys >= MIN_KEYS) advice.push(...onPrefix(prefix));
    const largest = prefix.largest;
    if (largest && largest.bytes > Math.max(LARGE_BYTES, prefixes.bytes / 10)) {
      advice.push({
        text: `${asText(largest.key)} alone has ${bytes(largest.bytes)}.`,
        how: 'A large value is slow to copy, delete and move: split it by a part of its name.',
      });
    }
  }
  return advice;
}

function onServer(now: Circumstances): Advice[] {
  const advice: Advice[] = [];
  if (now.max === 0) {
    advice.push({
      text: 'There is no memory limit.',
      how: 'Set maxmemory, so that the server and not the kernel decides what happens at the end.',
    });
  } else if (now.used / now.max > 0.9) {
    const refuses = now.policy === 'noeviction';
    advice.push({
      text: `${percent(now.used / now.max)} of the limit is used.`,
      how: refuses
        ? 'Writes will soon be refused: maxmemory-policy is noeviction.'
        : `Keys are evicted by ${now.policy}; a larger maxmemory keeps more.`,
    });
  }
  if (now.used > 64 << 20 && now.rss / now.used > 1.5) {
    advice.push({
      text: `The process holds ${bytes(now.rss)}, ${percent(now.rss / now.used)} of what is used.`,
      how: 'Many removals leave pages that are mostly empty: activedefrag yes moves what they hold.',
    });
  }
  return advice;
}

function onPrefix(prefix: Prefix): Advice[] {
  const advice: Advice[] = [];
  const lasting = prefix.keys - prefix.expiring;
  if (lasting > 0 && prefix.expiring >= lasting) {
    advice.push({
      text: `${count(lasting)} of ${count(prefix.keys)} keys of ${prefix.name} never expire, unlike the others.`,
      how: 'Perhaps a writer forgets the expiry: SET without EX removes it, KEEPTTL leaves it.',
    });
  }
  const strings = prefix.types.get('string') ?? 0;
  const each = prefix.bytes / prefix.keys;
  const name = prefix.nameBytes / prefix.keys;
  if (strings / prefix.keys > 0.9 && each < 160 && name > each / 2) {
    advice.push({
      text: `Names of ${prefix.name} take most: ${Math.round(name)} of ${Math.round(each)} bytes.`,
      how: 'Shorter names, or fields of one hash for each hundred of them, take less.',
    });
  }
  return advice;
}
