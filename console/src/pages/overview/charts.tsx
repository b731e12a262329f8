// The charts of the overview, each a few columns of the samples.

import type { Figures, Sample } from '../../api/figures';
import { bytes, micros, percent, short } from '../../api/format';
import { Chart, type ChartProps, type Series } from '../../ui/chart';

const COLORS = ['--c1', '--c2', '--c3', '--c4', '--c5', '--c6', '--c7', '--c8'];
const WORKERS = 'Load of workers';
const perSecond = (value: number) => `${short(value)}/s`;
const bytesPerSecond = (value: number) => `${bytes(value)}/s`;

export function Charts(props: { samples: Sample[]; figures: Figures }) {
  const shown = props.samples;
  const times = shown.map((sample) => Math.round(sample.atMs / 1000));
  const line = (name: string, color: number, value: (sample: Sample) => number, dash = false) => ({
    name,
    color: COLORS[color] as string,
    values: shown.map(value),
    dash,
  });
  const workers = props.figures.workers?.length ?? 0;
  const max = props.figures.memory?.max ?? 0;
  const charts: Omit<ChartProps, 'times'>[] = [
    {
      title: 'Commands',
      note: 'by family',
      series: familySeries(shown),
      format: perSecond,
      stacked: true,
    },
    {
      title: 'Latency',
      note: 'time in the server',
      series: [
        line('p50', 0, (one) => one.p50),
        line('p99', 1, (one) => one.p99),
        line('p99.9', 3, (one) => one.p999),
      ],
      format: micros,
      logarithmic: true,
    },
    {
      title: 'Memory',
      series: [
        line('used', 0, (one) => one.used),
        line('RSS', 1, (one) => one.rss),
        ...(max > 0 ? [line('limit', 3, () => max, true)] : []),
      ],
      format: bytes,
      binary: true,
    },
    {
      title: 'Hit rate',
      series: [line('hits', 0, (one) => one.hitRate)],
      format: percent,
      atLeast: 1,
      atMost: 1,
    },
    {
      title: 'Keys that go',
      series: [line('expired', 0, (one) => one.expired), line('evicted', 1, (one) => one.evicted)],
      format: perSecond,
    },
    {
      title: 'Network',
      series: [line('in', 0, (one) => one.netIn), line('out', 1, (one) => one.netOut)],
      format: bytesPerSecond,
      binary: true,
    },
    {
      title: 'CPU',
      note: '100 % is one core',
      series: [line('user', 0, (one) => one.cpuUser), line('system', 1, (one) => one.cpuSys)],
      format: percent,
      stacked: true,
    },
    {
      title: WORKERS,
      series: workersSeries(workers, line),
      format: percent,
      atLeast: 1,
      atMost: 1,
    },
    {
      title: 'Waiting',
      series: [
        line('lock parks/s', 0, (one) => one.lockParks),
        line('slow lane waits', 1, (one) => one.laneWaiting),
        line('clients wait', 2, (one) => one.blocked),
      ],
      format: short,
    },
  ];
  return (
    <div class="charts">
      {charts
        .filter((chart) => chart.title !== WORKERS || workers > 0)
        .map((chart) => (
          <Chart key={chart.title} {...chart} times={times} />
        ))}
    </div>
  );
}

type Line = (name: string, color: number, value: (sample: Sample) => number) => Series;

/** A line for each worker, or with many of them the least, the middle and the most busy. */
function workersSeries(workers: number, line: Line): Series[] {
  if (workers <= COLORS.length) {
    return Array.from({ length: workers }, (_, index) =>
      line(`worker ${index}`, index, (one) => one.load[index] ?? Number.NaN),
    );
  }
  const ordered = (one: Sample) => [...one.load].sort((a, b) => a - b);
  return [
    line('most', 3, (one) => ordered(one).at(-1) ?? Number.NaN),
    line('median', 0, (one) => ordered(one)[one.load.length >> 1] ?? Number.NaN),
    line('least', 1, (one) => ordered(one)[0] ?? Number.NaN),
  ];
}

/** Families in the order in which they were first seen, so that they do not change places. */
const order: string[] = [];

/** The families with the most calls, and the others as one. */
function familySeries(shown: Sample[]): Series[] {
  const totals = new Map<string, number>();
  for (const sample of shown) {
    for (const [name, { rate }] of Object.entries(sample.families)) {
      if (rate > 0) totals.set(name, (totals.get(name) ?? 0) + rate);
    }
  }
  const ranked = [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const own = ranked.slice(0, ranked.length > COLORS.length ? COLORS.length - 1 : COLORS.length);
  for (const name of own) if (!order.includes(name)) order.push(name);
  own.sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const series = own.map((name, index) => ({
    name,
    color: COLORS[index] as string,
    values: shown.map((sample) => sample.families[name]?.rate ?? 0),
  }));
  const others = ranked.slice(own.length);
  if (others.length > 0) {
    const sum = (sample: Sample) =>
      others.reduce((all, name) => all + (sample.families[name]?.rate ?? 0), 0);
    series.push({ name: 'others', color: COLORS.at(-1) as string, values: shown.map(sum) });
  }
  return series;
}
