// What is wrong with the server at the moment and does not pass by itself, from its figures.
//
// Tests: tests/unit/troubles.test.ts.

import type { Figures } from './figures';

export interface Trouble {
  text: string;
  /** The page that tells more. */
  page: 'persistence' | 'replication';
}

export function troublesOf(now: Figures): Trouble[] {
  const troubles: Trouble[] = [];
  const disk = now.persistence ?? {};
  if (now.replication?.link === 'down') {
    const text = 'The link to the primary is not up: what is read here may be out of date.';
    troubles.push({ text, page: 'replication' });
  }
  if (disk.rdb_last_bgsave_status === 'err') {
    troubles.push({ text: 'The last snapshot failed.', page: 'persistence' });
  }
  if (disk.aof_enabled !== 1) return troubles;
  if (disk.aof_last_write_status === 'err') {
    const text = 'The append-only file can not be written.';
    troubles.push({ text, page: 'persistence' });
  }
  if (disk.aof_last_bgrewrite_status === 'err') {
    const text = 'The append-only file could not be written anew.';
    troubles.push({ text, page: 'persistence' });
  }
  return troubles;
}
