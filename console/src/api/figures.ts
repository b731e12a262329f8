// Figures of the server: cumulative counters as they come, and samples, which are what happened
// between two of them. A figure the server does not know is absent; so is what derives from it.
//
// Tests: tests/unit/figures.test.ts.

/** Counters since the server's start. */
export interface Figures {
  atMs: number;
  uptimeS?: number;
  memory?: {
    used?: number;
    rss?: number;
    max?: number;
    peak?: number;
    notCounted?: number;
    byDb?: DatabaseFigures[];
  };
  keys?: { hits?: number; misses?: number; expired?: number; evicted?: number };
  net?: {
    in?: number;
    out?: number;
    connections?: number;
    rejected?: number;
    clients?: number;
    blocked?: number;
  };
  cpu?: { userS: number; sysS: number };
  workers?: WorkerFigures[];
  lane?: { threads?: number; waiting?: number; jobs?: number };
  families?: FamilyFigures[];
  persistence?: Record<string, string | number | boolean>;
  /** The link of a replica to its primary. */
  replication?: { role: string; replicas?: number; link?: 'up' | 'down' };
}

/** A database that has keys. */
export interface DatabaseFigures {
  db: number;
  keys: number;
  expires?: number;
}

export interface WorkerFigures {
  id: number;
  connections?: number;
  commands?: number;
  busyUs?: number;
  lockParks?: number;
}

export interface FamilyFigures {
  name: string;
  calls: number;
  usec: number;
  /** Upper bound of each bucket in microseconds, and the calls in that bucket alone. */
  histogram?: [number, number][];
}

export interface FamilySample {
  /** Calls a second. */
  rate: number;
  /** Microseconds; NaN when there was no call. */
  p50: number;
  p99: number;
  p999: number;
}

/** What happened between two figures; rates are by second. */
export interface Sample {
  atMs: number;
  commands: number;
  families: Record<string, FamilySample>;
  p50: number;
  p99: number;
  p999: number;
  used: number;
  rss: number;
  hitRate: number;
  hits: number;
  misses: number;
  expired: number;
  evicted: number;
  netIn: number;
  netOut: number;
  clients: number;
  blocked: number;
  newConnections: number;
  cpuUser: number;
  cpuSys: number;
  laneWaiting: number;
  laneJobs: number;
  lockParks: number;
  /** Share of the time in which each worker was busy. */
  load: number[];
  keys: number;
}

/** The rate of a counter; NaN when it is unknown or began anew. */
function rate(now: number | undefined, before: number | undefined, seconds: number): number {
  if (now === undefined || before === undefined || now < before) return Number.NaN;
  return (now - before) / seconds;
}

/** The calls of each bucket between two histograms; all of it when the server began anew. */
function histogramSince(
  now: [number, number][] = [],
  before: [number, number][] = [],
): [number, number][] {
  const earlier = new Map(before);
  return now.map(([upper, count]) => [upper, Math.max(0, count - (earlier.get(upper) ?? 0))]);
}

/** The bound below which a share of the calls lies; NaN without calls. */
export function quantile(histogram: [number, number][], share: number): number {
  let total = 0;
  for (const [, count] of histogram) total += count;
  if (total === 0) return Number.NaN;
  const sorted = [...histogram].sort((a, b) => a[0] - b[0]);
  const wanted = share * total;
  let seen = 0;
  let lower = 0;
  for (const [upper, count] of sorted) {
    // Empty buckets are left out, so that the one before may not be the next lower.
    lower = Math.max(lower, upper / 2);
    if (count > 0 && seen + count >= wanted) {
      return lower + ((upper - lower) * (wanted - seen)) / count;
    }
    seen += count;
    lower = upper;
  }
  return lower;
}

/** Histograms of several families as one. */
export function merged(histograms: [number, number][][]): [number, number][] {
  const sum = new Map<number, number>();
  for (const histogram of histograms) {
    for (const [upper, count] of histogram) sum.set(upper, (sum.get(upper) ?? 0) + count);
  }
  return [...sum].sort((a, b) => a[0] - b[0]);
}

/** What happened from one to the next; nothing when no time has passed. */
export function sampleOf(now: Figures, before: Figures): Sample | undefined {
  const seconds = (now.atMs - before.atMs) / 1000;
  if (seconds <= 0) return undefined;
  const since = (a?: number, b?: number) => rate(a, b, seconds);
  const { families, all } = familiesOf(now, before, seconds);
  const hits = since(now.keys?.hits, before.keys?.hits);
  const misses = since(now.keys?.misses, before.keys?.misses);
  const earlier = new Map((before.workers ?? []).map((worker) => [worker.id, worker]));
  const sumParks = (figures: Figures) => total(figures.workers?.map((one) => one.lockParks));
  return {
    atMs: now.atMs,
    commands: total(Object.values(families).map((family) => family.rate)) ?? Number.NaN,
    families,
    p50: quantile(all, 0.5),
    p99: quantile(all, 0.99),
    p999: quantile(all, 0.999),
    used: now.memory?.used ?? Number.NaN,
    rss: now.memory?.rss ?? Number.NaN,
    hits,
    misses,
    hitRate: hits + misses > 0 ? hits / (hits + misses) : Number.NaN,
    expired: since(now.keys?.expired, before.keys?.expired),
    evicted: since(now.keys?.evicted, before.keys?.evicted),
    netIn: since(now.net?.in, before.net?.in),
    netOut: since(now.net?.out, before.net?.out),
    clients: now.net?.clients ?? Number.NaN,
    blocked: now.net?.blocked ?? Number.NaN,
    newConnections: since(now.net?.connections, before.net?.connections),
    cpuUser: since(now.cpu?.userS, before.cpu?.userS),
    cpuSys: since(now.cpu?.sysS, before.cpu?.sysS),
    laneWaiting: now.lane?.waiting ?? Number.NaN,
    laneJobs: since(now.lane?.jobs, before.lane?.jobs),
    lockParks: since(sumParks(now), sumParks(before)),
    load: (now.workers ?? []).map((worker) =>
      Math.min(1, since(worker.busyUs, earlier.get(worker.id)?.busyUs) / 1e6),
    ),
    // An empty server has no database.
    keys: now.memory?.byDb?.reduce((sum, db) => sum + db.keys, 0) ?? Number.NaN,
  };
}

function familiesOf(now: Figures, before: Figures, seconds: number) {
  const earlier = new Map((before.families ?? []).map((family) => [family.name, family]));
  const families: Record<string, FamilySample> = {};
  const histograms: [number, number][][] = [];
  for (const family of now.families ?? []) {
    const past = earlier.get(family.name);
    const histogram = histogramSince(family.histogram, past?.histogram);
    histograms.push(histogram);
    families[family.name] = {
      rate: rate(family.calls, past?.calls ?? 0, seconds),
      p50: quantile(histogram, 0.5),
      p99: quantile(histogram, 0.99),
      p999: quantile(histogram, 0.999),
    };
  }
  return { families, all: merged(histograms) };
}

/** The sum of what is known; nothing when nothing is. */
function total(values: (number | undefined)[] | undefined): number | undefined {
  const known = values?.filter((value): value is number => value !== undefined);
  return known && known.length > 0 ? known.reduce((a, b) => a + b, 0) : undefined;
}
