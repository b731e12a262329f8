// What the server does now and did in the last hour.

import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { Figures, Sample } from '../../api/figures';
import { bytes, count, duration, micros, percent, short } from '../../api/format';
import { figures, samples, session } from '../../state';
import { Bar, Choice, Empty, PageHead, Panel, Tile } from '../../ui/parts';
import { Charts } from './charts';

const WINDOWS = [
  ['60', '1 min'],
  ['300', '5 min'],
  ['900', '15 min'],
  ['3600', '1 h'],
] as const;

export function Overview() {
  const window = useSignal<(typeof WINDOWS)[number][0]>('300');
  const frozen = useRef<{ figures: Figures; samples: Sample[] } | undefined>(undefined);
  const paused = useSignal(false);
  const now = paused.value ? frozen.current?.figures : figures.value;
  const all = paused.value ? (frozen.current?.samples ?? []) : samples;
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
      <Tiles figures={now} sample={all.at(-1)} />
      <Charts samples={all} seconds={Number(window.value)} figures={now} />
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
    now.replication ? `${now.replication.role}, ${now.replication.replicas ?? 0} replicas` : '',
  ];
  return parts.filter(Boolean).join(' · ');
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

const known = (value: number | undefined, format: (value: number) => string) =>
  value === undefined || Number.isNaN(value) ? '–' : format(value);

const callsOf = (now: Figures) => now.families?.reduce((sum, family) => sum + family.calls, 0);
const keysOf = (now: Figures) => now.memory?.byDb?.reduce((sum, db) => sum + db.keys, 0);
const expiresOf = (now: Figures) =>
  now.memory?.byDb?.reduce((sum, db) => sum + (db.expires ?? 0), 0) ?? 0;

function Workers(props: { figures: Figures; sample: Sample | undefined }) {
  const workers = props.figures.workers ?? [];
  if (workers.length === 0) return null;
  return (
    <Panel title="Workers" note="share of time each is busy">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Worker</th>
            <th scope="col" class="wide">
              Load
            </th>
            <th scope="col" class="number">
              Connections
            </th>
            <th scope="col" class="number">
              Lock parks
            </th>
          </tr>
        </thead>
        <tbody>
          {workers.map((worker, index) => {
            const load = props.sample?.load[index] ?? Number.NaN;
            return (
              <tr key={worker.id}>
                <td>{worker.id}</td>
                <td>
                  <div class="load">
                    <Bar share={load} label={`Load of worker ${worker.id}`} warn={load > 0.9} />
                    <span>{known(load, percent)}</span>
                  </div>
                </td>
                <td class="number">{known(worker.connections, count)}</td>
                <td class="number">{known(worker.lockParks, short)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p class="note">
        Slow lane: {known(props.figures.lane?.threads, count)} threads,{' '}
        {known(props.figures.lane?.waiting, count)} jobs wait,{' '}
        {known(props.figures.lane?.jobs, count)} done.
      </p>
    </Panel>
  );
}

function Families(props: { sample: Sample | undefined }) {
  const rows = Object.entries(props.sample?.families ?? {})
    .filter(([, family]) => family.rate > 0)
    .sort(([, a], [, b]) => b.rate - a.rate);
  return (
    <Panel title="Families of commands" note="in the last second">
      {rows.length === 0 ? (
        <Empty>No command in the last second.</Empty>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Family</th>
              <th scope="col" class="number">
                Commands/s
              </th>
              <th scope="col" class="number">
                p50
              </th>
              <th scope="col" class="number">
                p99
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, family]) => (
              <tr key={name}>
                <td>{name}</td>
                <td class="number">{short(family.rate)}</td>
                <td class="number">{micros(family.p50)}</td>
                <td class="number">{micros(family.p99)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function Databases(props: { figures: Figures }) {
  const rows = (props.figures.memory?.byDb ?? []).filter((db) => db.keys > 0);
  return (
    <Panel title="Databases">
      {rows.length === 0 ? (
        <Empty>No keys.</Empty>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Database</th>
              <th scope="col" class="number">
                Keys
              </th>
              <th scope="col" class="number">
                Expire
              </th>
              <th scope="col" class="number">
                Memory
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((db) => (
              <tr key={db.db}>
                <td>{db.db}</td>
                <td class="number">{count(db.keys)}</td>
                <td class="number">{known(db.expires, count)}</td>
                <td class="number">{known(db.bytes, bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
