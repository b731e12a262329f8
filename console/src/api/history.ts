// What the figures were before this page was opened: the server's history, as samples.
//
// Tests: tests/unit/history.test.ts.

import type { FamilySample, Sample } from './figures';

/** One figure of each point; nothing where it is not known. */
export type Column = (number | null)[];

/** The answer of /api/history: the points by column, oldest first. */
export interface History {
  stepS: number;
  atMs: number[];
  /** The share of the time in which each worker was busy. */
  load: number[][];
  /** Calls a second. */
  families: Record<string, Column>;
  [figure: string]: unknown;
}

export type Span = 'hour' | 'day';

/** The history's points as samples. Of a family only the rate is kept. */
export function samplesOf(history: History): Sample[] {
  const figure = (name: string, at: number): number => {
    const column = history[name];
    const value: unknown = Array.isArray(column) ? column[at] : undefined;
    return typeof value === 'number' ? value : Number.NaN;
  };
  return history.atMs.map((atMs, at) => {
    const of = (name: string) => figure(name, at);
    const families = familiesAt(history, at);
    const seen = of('hits') + of('misses');
    return {
      atMs,
      commands: Object.values(families).reduce((sum, family) => sum + family.rate, 0),
      families,
      p50: of('p50'),
      p99: of('p99'),
      p999: of('p999'),
      used: of('used'),
      rss: of('rss'),
      hits: of('hits'),
      misses: of('misses'),
      hitRate: seen > 0 ? of('hits') / seen : Number.NaN,
      expired: of('expired'),
      evicted: of('evicted'),
      netIn: of('netIn'),
      netOut: of('netOut'),
      clients: of('clients'),
      blocked: of('blocked'),
      newConnections: of('newConnections'),
      cpuUser: of('cpuUser'),
      cpuSys: of('cpuSys'),
      laneWaiting: of('laneWaiting'),
      laneJobs: of('laneJobs'),
      lockParks: of('lockParks'),
      load: history.load[at] ?? [],
      keys: of('keys'),
    };
  });
}

function familiesAt(history: History, at: number): Record<string, FamilySample> {
  const families: Record<string, FamilySample> = {};
  for (const [name, column] of Object.entries(history.families)) {
    const rate = column[at];
    if (typeof rate !== 'number') continue;
    families[name] = { rate, p50: Number.NaN, p99: Number.NaN, p999: Number.NaN };
  }
  return families;
}
