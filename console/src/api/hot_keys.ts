// The keys that are used most: those of the server's sample, which is always taken, and those of a
// measurement by HOTKEYS.
//
// Tests: tests/unit/hot_keys.test.ts.

import {
  asArray,
  asNumber,
  asPairs,
  asRecord,
  asText,
  asWord,
  type Reply,
  type Word,
} from './reply';

/** The answer of /api/hotkeys: this minute and the one before, by the keys called most. */
export interface SampledKeys {
  /** About one command in so many is noted; 0: none. */
  oneIn: number;
  /** The time that it covers, in seconds. */
  coversS: number;
  /** How many calls were noted. */
  noted: number;
  /** Estimated calls of all keys. */
  callsPerS: number;
  keys: SampledKey[];
}

export interface SampledKey {
  key: Word;
  callsPerS: number;
  /** Its part of all calls of keys, from 0 to 1. */
  share: number;
  noted: number;
  meanUs: number;
  meanBytes: number;
}

/** A key that was noted less often may be there by chance. */
const LEAST_NOTED = 3;

/** The keys that were noted often enough to say something. */
export const telling = (sampled: SampledKeys): SampledKey[] =>
  sampled.keys.filter((key) => key.noted >= LEAST_NOTED);

/** A key and what it has cost in a measurement. */
export interface HotKey {
  key: Word;
  amount: number;
}

/** A measurement by HOTKEYS. */
export interface Measured {
  active: boolean;
  /** By the name of what was measured. */
  tables: [string, HotKey[]][];
  facts: [string, string][];
}

/** HOTKEYS GET is a map, or an array that holds one. */
export function measuredOf(reply: Reply): Measured {
  const all = asArray(reply);
  const told = asRecord(all.length === 1 ? all[0] : reply);
  const tables: [string, HotKey[]][] = [];
  const facts: [string, string][] = [];
  for (const [name, value] of Object.entries(told)) {
    if (name.startsWith('by-')) {
      tables.push([
        name,
        asPairs(value).map(([key, amount]) => ({ key: asWord(key), amount: asNumber(amount) })),
      ]);
    } else {
      facts.push([name, asText(value)]);
    }
  }
  const active = asText(told['tracking-active']);
  return { active: active === '1' || active === 'true', tables, facts };
}
