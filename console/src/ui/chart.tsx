// A chart of the last minutes, drawn by uPlot on a canvas. Its legend is text, with the value under
// the pointer or else the newest one, so that what a chart shows can be read without seeing it.

import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { isDark } from '../state';

export interface Series {
  name: string;
  /** A custom property of the stylesheet: `--c1`. */
  color: string;
  values: number[];
  dash?: boolean;
  /** In a stacked chart: the whole, which stands on nothing. */
  frame?: boolean;
}

export interface ChartProps {
  title: string;
  note?: string;
  /** Seconds since 1970, one for each value. */
  times: number[];
  series: Series[];
  format: (value: number) => string;
  /** Each series stands on the one before. */
  stacked?: boolean;
  logarithmic?: boolean;
  /** The least upper end of the axis. */
  atLeast?: number;
  atMost?: number;
  /** The axis has powers of two. */
  binary?: boolean;
}

const HEIGHT_PX = 150;
const AXIS_PX = 66;
/** A chart shows no less than this, so that the first samples have room. */
const LEAST_S = 10;
/** Below the chart: the times, with a gap to the lowest value. */
const TIMES_PX = 27;
const SYNC = uPlot.sync('charts');

const cssColor = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [under, setUnder] = useState<number | null>(null);
  const names = props.series.map((series) => series.name).join();
  const dark = isDark.value;
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const chart = new uPlot(optionsOf(latest, element.clientWidth, setUnder), [[]], element);
    plot.current = chart;
    chart.setData(dataOf(latest.current));
    const observer = new ResizeObserver(() =>
      chart.setSize({ width: element.clientWidth, height: HEIGHT_PX }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [names, dark]);
  useEffect(() => plot.current?.setData(dataOf(props)), [props.times, props.series]);
  const shown = under ?? props.times.length - 1;
  return (
    <figure class="chart">
      <figcaption>
        <h2>{props.title}</h2>
        {props.note && <span class="note">{props.note}</span>}
      </figcaption>
      <div ref={box} class="canvas" aria-hidden="true" />
      <ul class="legend">
        {props.series.map((series) => (
          <li key={series.name}>
            <i style={{ background: `var(${series.color})` }} />
            {series.name} <b>{valueText(series.values[shown], props.format)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

const valueText = (value: number | undefined, format: (value: number) => string) =>
  value === undefined || Number.isNaN(value) ? '–' : format(value);

/** What uPlot draws: a gap is null; stacked values are sums. */
function dataOf(props: ChartProps): uPlot.AlignedData {
  const sums: number[] = new Array(props.times.length).fill(0);
  const columns = props.series.map((series) =>
    series.values.map((value, index) => {
      if (!Number.isFinite(value)) return null;
      if (!props.stacked || series.frame) return value;
      sums[index] = (sums[index] ?? 0) + value;
      return sums[index] ?? null;
    }),
  );
  return [props.times, ...inOrder(props, columns)];
}

/** The order in which lines are drawn: of those that are stacked the top one first. */
const inOrder = <One,>(props: ChartProps, ones: One[]): One[] =>
  props.stacked ? [...ones].reverse() : ones;

function optionsOf(
  latest: { current: ChartProps },
  width: number,
  onPoint: (index: number | null) => void,
): uPlot.Options {
  const props = latest.current;
  const soft = cssColor('--soft');
  const line = cssColor('--grid');
  const drawn = inOrder(props, props.series);
  const axis = { stroke: soft, font: '11px system-ui', grid: { stroke: line, width: 1 } };
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    // The last moment's label hangs over the end of the axis by half its length. While there is no
    // moment there is no axis of times, and the lowest value would hang over the end of the canvas.
    padding: [8, 26, (_, side, sidesWithAxes) => (sidesWithAxes[side] ? 0 : TIMES_PX), 0],
    cursor: { sync: { key: SYNC.key }, drag: { x: false, y: false }, points: { size: 5 } },
    hooks: { setCursor: [(chart) => onPoint(chart.cursor.idx ?? null)] },
    scales: {
      x: { time: true, range: (_, first, last) => timesOf(first, last) },
      y: { distr: props.logarithmic ? 3 : 1, range: (_, low, high) => rangeOf(props, low, high) },
    },
    axes: [
      {
        ...axis,
        ticks: { show: false },
        size: TIMES_PX,
        gap: 8,
        space: 70,
        incrs: STEPS_S,
        values: timeLabels,
      },
      {
        ...axis,
        ticks: { show: false },
        size: AXIS_PX,
        space: 28,
        ...(props.binary && { incrs: BINARY_STEPS }),
        ...(props.logarithmic && {
          filter: powersOfTen,
          grid: { ...axis.grid, filter: powersOfTen },
        }),
        values: (_, values) =>
          values.map((value) => (value === null ? '' : latest.current.format(value))),
      },
    ],
    series: [{}, ...drawn.map((series) => lineOf(series, props.stacked === true && !series.frame))],
  };
}

/** Between two labels: no second has two. */
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];

/** From when to when: nothing before the first sample. */
const timesOf = (first: number | null, last: number | null): [number | null, number | null] =>
  first === null || last === null ? [null, null] : [Math.min(first, last - LEAST_S), last];

const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

const powersOfTen = (_: uPlot, values: number[]) =>
  values.map((value) => (Math.abs(Math.log10(value) % 1) < 1e-9 ? value : null));

const timeLabels = (_: uPlot, values: number[]) =>
  values.map((value) => new Date(value * 1000).toLocaleTimeString('en-GB').slice(0, 8));

function lineOf(series: Series, stacked: boolean): uPlot.Series {
  const color = cssColor(series.color);
  return {
    stroke: color,
    width: 1.5,
    fill: stacked ? mixed(color) : undefined,
    dash: series.dash ? [4, 3] : undefined,
    points: { show: false },
    spanGaps: false,
  };
}

/** The colour of an area: nearer to the page's, so that areas do not outshine lines. Both are
 * written as #rrggbb. */
function mixed(color: string): string {
  const [ours, page] = [color, cssColor('--panel')].map((one) => Number.parseInt(one.slice(1), 16));
  let sum = 0;
  for (const shift of [16, 8, 0]) {
    const part = 0.5 * (((ours ?? 0) >> shift) & 255) + 0.5 * (((page ?? 0) >> shift) & 255);
    sum |= Math.round(part) << shift;
  }
  return `#${sum.toString(16).padStart(6, '0')}`;
}

function rangeOf(props: ChartProps, low: number | null, high: number | null): [number, number] {
  if (props.logarithmic) {
    const least = Math.max(low ?? 1, 0.1);
    return [
      10 ** Math.floor(Math.log10(least)),
      10 ** Math.ceil(Math.log10(Math.max(high ?? 10, least * 9))),
    ];
  }
  const top = Math.max(high ?? 0, props.atLeast ?? 0);
  return [0, Math.min(top === 0 ? 1 : top * 1.08, props.atMost ?? Number.POSITIVE_INFINITY)];
}
