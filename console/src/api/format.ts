// Numbers as people read them. Tests: tests/unit/format.test.ts.

const GROUPED = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** Three significant digits: 1.23, 12.3, 123. */
function three(value: number): string {
  const size = Math.abs(value);
  const text = value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** 12,345 */
export const count = (value: number): string => GROUPED.format(value);

/** 12.3 k; below a thousand as it is. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 999.5e6) return `${three(value / 1e9)} G`;
  if (size >= 999.5e3) return `${three(value / 1e6)} M`;
  if (size >= 1e4) return `${three(value / 1e3)} k`;
  return size >= 100 ? count(value) : three(value);
}

/** Bytes, in powers of 1,024. */
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1000 && unit + 1 < units.length) {
    size /= 1024;
    unit += 1;
  }
  return `${three(size)} ${units[unit]}`;
}

/** Microseconds. */
export function micros(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value >= 999_500) return `${three(value / 1e6)} s`;
  if (value >= 999.5) return `${three(value / 1e3)} ms`;
  return `${three(value)} µs`;
}

/** A length of time in seconds, by its largest units. */
export function duration(seconds: number, units = 2): string {
  const parts: string[] = [];
  let rest = Math.max(0, Math.floor(seconds));
  for (const [unit, size] of UNITS) {
    const amount = Math.floor(rest / size);
    rest -= amount * size;
    if (amount > 0) parts.push(`${amount} ${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === units) break;
  }
  return parts.join(' ') || '0 s';
}

const UNITS: [string, number][] = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
];

export const percent = (share: number): string =>
  Number.isFinite(share) ? `${three(share * 100)} %` : '–';

/** A figure that may be absent. */
export const known = (value: number | undefined, format: (value: number) => string): string =>
  value === undefined || Number.isNaN(value) ? '–' : format(value);

/** HH:MM:SS of this machine's clock. */
export const clock = (ms: number): string => new Date(ms).toLocaleTimeString('en-GB');

/** Date and time of this machine's clock. */
export const moment = (ms: number): string => new Date(ms).toLocaleString('sv-SE');
