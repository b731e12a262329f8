// Memory by type and by database in the last minutes, within the memory that is used. The parts are
// estimated (api/memory_estimate.ts), a point each second while the page is seen.

import { effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Figures } from '../../api/figures';
import { bytes, count, percent, short } from '../../api/format';
import {
  MAX_DATABASES,
  MemoryEstimate,
  type MemoryParts,
  ROUND_KEYS,
} from '../../api/memory_estimate';
import { FIGURES_MS, figures, run, socket } from '../../state';
import { Chart, type Series } from '../../ui/chart';
import { useRefresh } from '../../ui/parts';

const ROUND_EVERY_MS = 10_000;
const MAX_POINTS = 900;

interface Point extends MemoryParts {
  atMs: number;
  used: number;
}

/** Kept while other pages are seen. */
const points = signal<Point[]>([]);
const fresh = () => new MemoryEstimate(run, (all, db) => socket.askAll(all, db));
let estimate = fresh();
/** Whether a round has ended: there is something to show. */
let isKnown = false;
effect(() => {
  // Nobody is logged in any more.
  if (figures.value !== undefined) return;
  points.value = [];
  estimate = fresh();
  isKnown = false;
});

export function LiveMemory() {
  const now = figures.value;
  useRefresh(
    async () => {
      const memory = figures.peek()?.memory;
      if (!memory) return;
      await estimate.round(memory.byDb ?? [], memory.used ?? 0);
      const latest = figures.peek();
      if (!isKnown && latest) addPoint(latest);
      isKnown = true;
    },
    ROUND_EVERY_MS,
    [now === undefined],
  );
  useEffect(() => () => estimate.stop(), []);
  useEffect(() => {
    if (now && !document.hidden && isKnown) addPoint(now);
  }, [now]);
  const shown = points.value;
  const last = shown.at(-1);
  return (
    <section class="stack" aria-label="Live">
      <div class="charts pair">
        <PartsChart title="By type" series={typeSeries(shown)} points={shown} />
        <PartsChart title="By database" series={databaseSeries(shown)} points={shown} />
      </div>
      <p class="note">{last ? noteOf(last) : 'Looking at keys…'}</p>
    </section>
  );
}

function addPoint(now: Figures): void {
  const memory = now.memory;
  const before = points.peek().at(-1);
  if (before && now.atMs - before.atMs < FIGURES_MS / 2) return;
  const parts = estimate.parts(memory?.byDb ?? []);
  const point = { ...parts, atMs: now.atMs, used: memory?.used ?? Number.NaN };
  const hasGap = before && now.atMs - before.atMs > 5 * FIGURES_MS;
  const gap = hasGap ? [{ ...EMPTY, atMs: before.atMs + FIGURES_MS }] : [];
  points.value = [...points.peek(), ...gap, point].slice(-MAX_POINTS);
}

/** A moment of which nothing is known: lines end there. */
const EMPTY: Point = { atMs: 0, used: Number.NaN, byType: {}, byDb: {}, bytes: Number.NaN };

function noteOf(point: Point): string {
  const databases = figures.value?.memory?.byDb ?? [];
  const keys = databases.reduce((sum, one) => sum + one.keys, 0);
  if (keys === 0) return 'No keys.';
  const share = point.used > 0 ? ` (${percent(point.bytes / point.used)} of what is used)` : '';
  const source =
    estimate.looked >= keys
      ? `Added up from all ${count(keys)} keys`
      : `Estimated from ${count(estimate.looked)} of ${short(keys)} keys`;
  const left =
    databases.length > MAX_DATABASES ? ` of the ${MAX_DATABASES} databases with most keys` : '';
  return (
    `Keys take ${bytes(point.bytes)}${share}; the rest is buffers, connections and the server's ` +
    `own. ${source}${left}: up to ${count(ROUND_KEYS)} are looked at each ` +
    `${ROUND_EVERY_MS / 1000} s while this page is seen.`
  );
}

function PartsChart(props: { title: string; series: Series[]; points: Point[] }) {
  const used = props.points.map((point) => point.used);
  const frame: Series = { name: 'used', color: '--soft', values: used, dash: true, frame: true };
  return (
    <Chart
      title={props.title}
      note="estimate"
      times={props.points.map((point) => Math.round(point.atMs / 1000))}
      series={[...props.series, frame]}
      format={bytes}
      stacked
      binary
    />
  );
}

/** The colours of the types are those of their badges. */
const TYPES = [
  ['string', '--c3'],
  ['hash', '--c1'],
  ['list', '--c6'],
  ['set', '--c5'],
  ['zset', '--c7'],
  ['stream', '--c2'],
] as const;

const typeSeries = (shown: Point[]): Series[] =>
  TYPES.filter(([type]) => shown.some(({ byType }) => byType[type] !== undefined)).map(
    ([name, color]) => ({ name, color, values: valuesOf(shown, ({ byType }) => byType[name]) }),
  );

const COLORS = ['--c1', '--c2', '--c3', '--c4', '--c5', '--c6', '--c7'];

/** The databases that take most now, in the order of their numbers, and the others as one. */
function databaseSeries(shown: Point[]): Series[] {
  const now = shown.at(-1)?.byDb ?? {};
  const all = new Set(shown.flatMap(({ byDb }) => Object.keys(byDb).map(Number)));
  const ranked = [...all].sort((a, b) => (now[b] ?? 0) - (now[a] ?? 0));
  const own = ranked.slice(0, COLORS.length).sort((a, b) => a - b);
  const series: Series[] = own.map((db, index) => ({
    name: `db ${db}`,
    color: COLORS[index] as string,
    values: valuesOf(shown, ({ byDb }) => byDb[db]),
  }));
  const others = ranked.slice(COLORS.length);
  if (others.length > 0) {
    const sum = ({ byDb }: Point) => others.reduce((bytes, db) => bytes + (byDb[db] ?? 0), 0);
    series.push({ name: 'others', color: '--c8', values: valuesOf(shown, sum) });
  }
  return series;
}

const valuesOf = (shown: Point[], of: (point: Point) => number | undefined) =>
  shown.map((point) => (Number.isNaN(point.bytes) ? Number.NaN : (of(point) ?? 0)));
