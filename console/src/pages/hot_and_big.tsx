// The keys that take most memory, from a sample; the keys that are called most, from the sample that
// the server always takes; the keys that cost most, measured by HOTKEYS.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { bytes, count, duration, micros, percent, short } from '../api/format';
import {
  type HotKey,
  type Measured,
  measuredOf,
  type SampledKey,
  type SampledKeys,
  telling,
} from '../api/hot_keys';
import { readSampledKeys } from '../api/http';
import { asText, errorOf, type Word, wordId } from '../api/reply';
import type { Sampled } from '../api/sampler';
import { addressOf } from '../router';
import { database, run, socket } from '../state';
import { Empty, PageHead, Panel, TypeBadge, useRefresh, WriteButton } from '../ui/parts';
import { SampleButtons, sampleNote, useSample } from '../ui/sample';
import { type Column, Table } from '../ui/table';
import { attempt } from '../ui/toast';

export function HotAndBig() {
  return (
    <>
      <PageHead title="Hot and big keys" />
      <div class="halves">
        <Hot />
        <Big />
      </div>
    </>
  );
}

const BUDGET = { keys: 200_000, ms: 15_000 };
const KEPT = 100;

/** The largest of the keys that were seen. */
class Largest {
  kept: Sampled[] = [];

  add(batch: Sampled[]): void {
    const least = this.kept.length < KEPT ? -1 : (this.kept.at(-1)?.bytes ?? -1);
    const fresh = batch.filter((one) => one.bytes > least);
    if (fresh.length === 0) return;
    this.kept = [...this.kept, ...fresh].sort((a, b) => b.bytes - a.bytes).slice(0, KEPT);
  }
}

const keyLink = (key: Word) => (
  <a href={addressOf('keys', { db: String(database.value), key: wordId(key) })}>{asText(key)}</a>
);

function Big() {
  const sample = useSample(
    BUDGET,
    () => new Largest(),
    (largest, batch) => largest.add(batch),
  );
  const found = sample.found.value;
  return (
    <Panel
      title="Big keys"
      note={sampleNote(found)}
      actions={<SampleButtons sample={sample} first="Look" />}
    >
      {found ? (
        <Table
          label="Big keys"
          rows={found.sum.kept}
          columns={BIG_COLUMNS}
          rowId={(one) => wordId(one.key)}
          empty="No key yet."
        />
      ) : (
        <Empty>Asks MEMORY USAGE of up to {count(BUDGET.keys)} keys, a little at a time.</Empty>
      )}
    </Panel>
  );
}

const BIG_COLUMNS: Column<Sampled>[] = [
  { name: 'Key', cell: (one) => keyLink(one.key), by: (one) => asText(one.key) },
  {
    name: 'Type',
    cell: (one) => <TypeBadge type={one.type} />,
    by: (one) => one.type,
    width: '80px',
  },
  {
    name: 'Memory',
    cell: (one) => bytes(one.bytes),
    by: (one) => one.bytes,
    number: true,
    width: '100px',
  },
  {
    name: 'Expires in',
    cell: (one) => (one.ttlMs < 0 ? 'never' : duration(one.ttlMs / 1000)),
    by: (one) => (one.ttlMs < 0 ? Number.POSITIVE_INFINITY : one.ttlMs),
    number: true,
    width: '120px',
  },
];

const MEASURE_SECONDS = 10;
const POLL_MS = 1_000;
const REFRESH_MS = 2_000;

function Hot() {
  return (
    <div class="stack">
      <Called />
      <Costly />
    </div>
  );
}

/** The keys that are called most now, by the server's sample. */
function Called() {
  const sampled = useSignal<SampledKeys | undefined>(undefined);
  useRefresh(async () => {
    sampled.value = await readSampledKeys();
  }, REFRESH_MS);
  const now = sampled.value;
  return (
    <Panel title="Hot keys" note={now && now.oneIn > 0 ? calledNote(now) : undefined}>
      {now?.oneIn === 0 && (
        <Empty>The setting hot-keys-sample is 0: no command is noted by its keys.</Empty>
      )}
      {now && now.oneIn > 0 && (
        <Table
          label="Hot keys"
          rows={telling(now)}
          columns={CALLED_COLUMNS}
          rowId={(one) => wordId(one.key)}
          empty="No key was noted three times in these minutes."
        />
      )}
    </Panel>
  );
}

const calledNote = ({ oneIn, coversS, noted }: SampledKeys): string => {
  const share = oneIn === 1 ? 'all commands' : `about one command in ${count(oneIn)}`;
  return `${share}, ${count(noted)} calls in the last ${duration(coversS)}`;
};

const CALLED_COLUMNS: Column<SampledKey>[] = [
  { name: 'Key', cell: (one) => keyLink(one.key), by: (one) => asText(one.key) },
  {
    name: 'Calls/s',
    cell: (one) => short(one.callsPerS),
    by: (one) => one.callsPerS,
    number: true,
    width: '90px',
  },
  {
    name: 'Share',
    cell: (one) => percent(one.share),
    by: (one) => one.share,
    number: true,
    width: '80px',
  },
  {
    name: 'Mean time',
    cell: (one) => micros(one.meanUs),
    by: (one) => one.meanUs,
    number: true,
    width: '110px',
  },
  {
    name: 'Mean bytes',
    cell: (one) => bytes(one.meanBytes),
    by: (one) => one.meanBytes,
    number: true,
    width: '110px',
  },
];

/** The keys that cost most, measured. */
function Costly() {
  const measured = useSignal<Measured | undefined>(undefined);
  const absent = useSignal(false);
  const isActive = measured.value?.active ?? false;
  const read = async () => {
    const reply = await socket.ask(['HOTKEYS', 'GET'], database.value);
    const error = errorOf(reply);
    absent.value = error !== undefined && /unknown command/i.test(error);
    measured.value = error !== undefined || reply === null ? undefined : measuredOf(reply);
  };
  useEffect(() => void read().catch(() => {}), []);
  useEffect(() => {
    if (!isActive) return;
    const timer = setInterval(() => void read().catch(() => {}), POLL_MS);
    return () => clearInterval(timer);
  }, [isActive]);
  const start = () =>
    attempt(async () => {
      await socket.ask(['HOTKEYS', 'STOP']);
      await socket.ask(['HOTKEYS', 'RESET']);
      const words = ['HOTKEYS', 'START', 'METRICS', '2', 'CPU', 'NET', 'COUNT', '50'];
      await run([...words, 'DURATION', String(MEASURE_SECONDS)]);
      await read();
    });
  return (
    <Panel
      title="Costly keys"
      note={isActive ? 'measuring' : undefined}
      actions={
        !absent.value && (
          <WriteButton class="primary" disabled={isActive} onClick={() => void start()}>
            Measure {MEASURE_SECONDS} s
          </WriteButton>
        )
      }
    >
      {absent.value && <Empty>This server does not have HOTKEYS.</Empty>}
      {!absent.value && !measured.value && (
        <Empty>Measures for {MEASURE_SECONDS} seconds which keys take most time and traffic.</Empty>
      )}
      {measured.value?.tables.map(([name, rows]) => (
        <div key={name}>
          <h3>{TITLES[name] ?? name}</h3>
          <Table
            label={name}
            rows={rows}
            columns={hotColumns(name)}
            rowId={(row) => wordId(row.key)}
            empty="No key was used."
          />
        </div>
      ))}
    </Panel>
  );
}

const TITLES: Record<string, string> = {
  'by-cpu-time-us': 'By time',
  'by-cpu-time': 'By time',
  'by-net-bytes': 'By traffic',
};

const hotColumns = (name: string): Column<HotKey>[] => [
  { name: 'Key', cell: (row) => keyLink(row.key), by: (row) => asText(row.key) },
  {
    name: name.includes('net') ? 'Bytes' : 'Microseconds',
    cell: (row) => (name.includes('net') ? bytes(row.amount) : count(row.amount)),
    by: (row) => row.amount,
    number: true,
    width: '140px',
  },
];
