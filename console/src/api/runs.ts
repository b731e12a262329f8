// The last snapshots and rewrites of the append-only file, as the server tells them.
//
// Tests: tests/unit/runs.test.ts.

import { bytes, count } from './format';

export interface Run {
  kind: 'snapshot' | 'rewrite';
  /** Why it began: a command, or a save point that was reached. */
  why: string;
  beganMs: number;
  tookMs: number;
  keys: number;
  bytes: number;
  /** The file's name; empty if it was not known yet. */
  file: string;
  /** Why there is no file. */
  error: string | null;
}

const NAMES = { snapshot: 'snapshot', rewrite: 'append-only file' };

export const kindName = (run: Run): string => NAMES[run.kind] ?? run.kind;

/** What came out of it, in a line. */
export function resultOf(run: Run): string {
  if (run.error !== null) return run.error;
  const keys = run.keys === 1 ? '1 key' : `${count(run.keys)} keys`;
  return `${keys}, ${bytes(run.bytes)}`;
}
