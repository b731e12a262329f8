// What the server does now and did in the last hour, or day.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Figures, Sample } from '../../api/figures';
import { bytes, count, duration, known, micros, percent, short } from '../../api/format';
import { troublesOf } from '../../api/troubles';
import { addressOf } from '../../router';
import { daySamples, figures, loadDay, samples, session } from '../../state';
import { Choice, Empty, PageHead, Tile } from '../../ui/parts';
import { Charts } from './charts';
import { Databases, Families, Workers } from './tables';

const WINDOWS = [
  ['60', '1 min'],
  ['300', '5 min'],
  ['900', '15 min'],
  ['3600', '1 h'],
  ['21600', '6 h'],
  ['86400', '24 h'],
] as const;
/** Longer charts show the day's samples, of which each is so many seconds. */
const HOUR_S = 3_600;
const DAY_STEP_S = 10;

export function Overview() {
  const window = useSignal<(typeof WINDOWS)[number][0]>('300');
  const frozen = useRef<{ figures: Figures; samples: Sample[] } | undefined>(undefined);
  const paused = useSignal(false);
  const now = paused.value ? frozen.current?.figures : figures.value;
  const all = paused.value ? (frozen.current?.samples ?? []) : samples;
  const seconds = Number(window.value);
  const isLong = seconds > HOUR_S;
  useEffect(() => {
    if (!isLong || paused.value) return;
    void loadDay();
    const clock = setInterval(() => void loadDay(), DAY_STEP_S * 1_000);
    return () => clearInterval(clock);
  }, [isLong, paused.value]);
  if (!now) return <Empty>Waiting for the first figures…</Empty>;
  const pause = () => {
    frozen.current = { figures: now, samples: [...samples] };
    paused.value = !paused.value;
  };
  return (
    <>
      <PageHead title="Overview" note={uptimeNote(now)}>
        <Choice
          label="Length of the charts"
          value={window.value}
          options={WINDOWS}
          onChange={(chosen) => (window.value = chosen)}
        />
        <button type="button" aria-pressed={paused.value} onClick={pause}>
          {paused.value ? 'Go on' : 'Pause'}
        </button>
      </PageHead>
      <Troubles figures={now} />
      <Tiles figures={now} sample={all.at(-1)} />
      <Charts
        samples={(isLong ? daySamples.value : all).slice(isLong ? -seconds / DAY_STEP_S : -seconds)}
        figures={now}
      />
      <div class="columns">
        <Workers figures={now} sample={all.at(-1)} />
        <Families sample={all.at(-1)} />
        <Databases figures={now} />
      </div>
    </>
  );
}

function uptimeNote(now: Figures): string {
  const server = session.value?.server;
  const parts = [
    now.uptimeS === undefined ? '' : `up ${duration(now.uptimeS)}`,
    server?.workers ? `${server.workers} workers` : '',
    server?.engine ?? '',
    replicationNote(now.replication),
  ];
  return parts.filter(Boolean).join(' · ');
}

function replicationNote(now: Figures['replication']): string {
  if (!now) return '';
  const role = now.role === 'slave' ? 'a replica' : 'a primary';
  const replicas = now.replicas ?? 0;
  return `${role}, ${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`;
}

function Troubles({ figures: now }: { figures: Figures }) {
  return (
    <div class="troubles" role="status">
      {troublesOf(now).map(({ text, page }) => (
        <p key={text} class="reason">
          {text} <a href={addressOf(page)}>More</a>
        </p>
      ))}
    </div>
  );
}

function Tiles(props: { figures: Figures; sample: Sample | undefined }) {
  const { figures: now, sample } = props;
  const memory = now.memory;
  const max = memory?.max ?? 0;
  const used = memory?.used;
  const ratio = sample ? sample.hitRate : Number.NaN;
  const allHits = (now.keys?.hits ?? 0) + (now.keys?.misses ?? 0);
  return (
    <div class="tiles">
      <Tile
        name="Commands"
        value={`${known(sample?.commands, short)}/s`}
        note={`${known(callsOf(now), short)} since the start`}
      />
      <Tile
        name="Latency p99"
        value={known(sample?.p99, micros)}
        note={`p50 ${known(sample?.p50, micros)}`}
      />
      <Tile
        name="Memory"
        value={known(used, bytes)}
        note={
          max > 0 && used !== undefined ? `${percent(used / max)} of ${bytes(max)}` : 'no limit'
        }
        warn={max > 0 && used !== undefined && used / max > 0.9}
      />
      <Tile
        name="Keys"
        value={known(sample?.keys ?? keysOf(now), short)}
        note={`${count(expiresOf(now))} expire`}
      />
      <Tile
        name="Hit rate"
        value={known(ratio, percent)}
        note={allHits > 0 ? `${percent((now.keys?.hits ?? 0) / allHits)} in all` : 'no reads yet'}
      />
      <Tile
        name="Clients"
        value={known(now.net?.clients, count)}
        note={`${known(now.net?.blocked, count)} wait`}
      />
    </div>
  );
}

const callsOf = (now: Figures) => now.families?.reduce((sum, family) => sum + family.calls, 0);
const keysOf = (now: Figures) => now.memory?.byDb?.reduce((sum, db) => sum + db.keys, 0);
const expiresOf = (now: Figures) =>
  now.memory?.byDb?.reduce((sum, db) => sum + (db.expires ?? 0), 0) ?? 0;
