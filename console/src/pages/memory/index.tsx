// Where the memory goes: the whole; by type and database, live; by prefix from a sample of the keys,
// with advice.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { bytes, count, known, percent, short } from '../../api/format';
import { asRecord, asText } from '../../api/reply';
import { literal } from '../../api/scan';
import { addressOf } from '../../router';
import { database, figures, run } from '../../state';
import { Bar, Choice, Empty, PageHead, Panel, Tile, TypeBadge, useRefresh } from '../../ui/parts';
import { SampleButtons, sampleNote, useSample } from '../../ui/sample';
import { type Column, Table } from '../../ui/table';
import { LiveMemory } from './live';
import { adviceOn, EXPIRES, type Prefix, Prefixes } from './prefixes';

const DEPTHS = [
  ['1', '1 part'],
  ['2', '2 parts'],
  ['3', '3 parts'],
] as const;
const BUDGET = { keys: 200_000, ms: 15_000 };

export function Memory() {
  return (
    <>
      <PageHead title="Memory" />
      <Whole />
      <LiveMemory />
      <ByPrefix />
      <Doctor />
    </>
  );
}

function Whole() {
  const memory = figures.value?.memory;
  const max = memory?.max ?? 0;
  const rssShare = memory?.used && memory.rss ? `${percent(memory.rss / memory.used)} of used` : '';
  return (
    <div class="tiles">
      <Tile
        name="Used"
        value={known(memory?.used, bytes)}
        note={`at most ${known(memory?.peak, bytes)}`}
      />
      <Tile
        name="Limit"
        value={max > 0 ? bytes(max) : 'none'}
        note={max > 0 ? `${percent((memory?.used ?? 0) / max)} used` : 'maxmemory 0'}
      />
      <Tile name="RSS" value={known(memory?.rss, bytes)} note={rssShare} />
      <Tile name="Not counted" value={known(memory?.notCounted, bytes)} note="does not evict" />
    </div>
  );
}

function ByPrefix() {
  const depth = useSignal<(typeof DEPTHS)[number][0]>('1');
  const sample = useSample(
    BUDGET,
    () => new Prefixes(Number(depth.value)),
    (prefixes, batch) => {
      for (const one of batch) prefixes.add(one);
    },
  );
  const found = sample.found.value;
  return (
    <Panel
      title="By prefix"
      note={sampleNote(found)}
      actions={
        <>
          <Choice
            label="Parts of a prefix"
            value={depth.value}
            options={DEPTHS}
            onChange={(chosen) => {
              depth.value = chosen;
              if (found) sample.begin();
            }}
          />
          <SampleButtons sample={sample} first="Analyse" />
        </>
      }
    >
      {found ? (
        <Results prefixes={found.sum} scale={found.done ? 1 : found.total / (found.looked || 1)} />
      ) : (
        <Empty>
          Looks at up to {count(BUDGET.keys)} keys and adds up what they take, by prefix. It reads
          only, a little at a time, shows what it has found so far, and can be stopped.
        </Empty>
      )}
    </Panel>
  );
}

function Results(props: { prefixes: Prefixes; scale: number }) {
  const { prefixes, scale } = props;
  const policy = useSignal('');
  useEffect(() => {
    run(['CONFIG', 'GET', 'maxmemory-policy']).then(
      (reply) => {
        policy.value = asText(asRecord(reply)['maxmemory-policy']);
      },
      () => {},
    );
  }, []);
  const now = figures.value?.memory;
  const advice = adviceOn(prefixes, {
    used: now?.used ?? 0,
    rss: now?.rss ?? 0,
    max: now?.max ?? 0,
    policy: policy.value,
  });
  return (
    <>
      <Table
        label="Prefixes"
        rows={[...prefixes.all.values()]}
        columns={columnsOf(prefixes, scale)}
        rowId={(prefix) => prefix.name}
        sorted={{ column: 'Memory', down: true }}
      />
      <ul class="type-sums" aria-label="By type">
        {[...prefixes.types.values()]
          .sort((a, b) => b.bytes - a.bytes)
          .map((sum) => (
            <li key={sum.type}>
              <TypeBadge type={sum.type} /> <b>{bytes(sum.bytes * scale)}</b>{' '}
              <span class="note">in {keysText(Math.round(sum.keys * scale))}</span>
            </li>
          ))}
      </ul>
      <ul class="type-sums" aria-label="By expiry">
        <li class="note">Expires</li>
        {EXPIRES.map((name, index) => (
          <li key={name}>
            {name} <b>{bytes((prefixes.expires[index] ?? 0) * scale)}</b>
          </li>
        ))}
      </ul>
      {advice.length > 0 && (
        <ul class="advice">
          {advice.map((one) => (
            <li key={one.text}>
              <b>{one.text}</b> {one.how}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

const keysText = (keys: number) => (keys === 1 ? '1 key' : `${short(keys)} keys`);

const prefixLink = (prefix: Prefix) =>
  prefix.name.startsWith('(') ? (
    prefix.name
  ) : (
    <a href={addressOf('keys', { db: String(database.value), find: `${literal(prefix.name)}*` })}>
      {prefix.name}
    </a>
  );

const columnsOf = (prefixes: Prefixes, scale: number): Column<Prefix>[] => [
  { name: 'Prefix', by: (prefix) => prefix.name, cell: prefixLink },
  {
    name: 'Memory',
    by: (prefix) => prefix.bytes,
    cell: (prefix) => bytes(prefix.bytes * scale),
    number: true,
    width: '100px',
  },
  {
    name: 'Share',
    by: (prefix) => prefix.bytes,
    cell: (prefix) => (
      <div class="load">
        <Bar share={prefix.bytes / prefixes.bytes} label={`Share of ${prefix.name}`} />
        <span>{percent(prefix.bytes / prefixes.bytes)}</span>
      </div>
    ),
    width: '160px',
  },
  {
    name: 'Keys',
    by: (prefix) => prefix.keys,
    cell: (prefix) => short(Math.round(prefix.keys * scale)),
    number: true,
    width: '90px',
  },
  {
    name: 'Each',
    by: (prefix) => prefix.bytes / prefix.keys,
    cell: (prefix) => bytes(prefix.bytes / prefix.keys),
    number: true,
    width: '90px',
  },
  {
    name: 'Expire',
    by: (prefix) => prefix.expiring / prefix.keys,
    cell: (prefix) => percent(prefix.expiring / prefix.keys),
    number: true,
    width: '80px',
  },
  {
    name: 'Types',
    cell: (prefix) => typesOf(prefix),
    width: '140px',
  },
];

const typesOf = (prefix: Prefix) =>
  [...prefix.types]
    .sort((a, b) => b[1] - a[1])
    .map(([type]) => type)
    .join(', ');

const DOCTOR_MS = 60_000;

function Doctor() {
  const text = useSignal('');
  useRefresh(async () => {
    text.value = asText(await run(['MEMORY', 'DOCTOR']));
  }, DOCTOR_MS);
  return (
    <Panel title="What the server says" note="MEMORY DOCTOR">
      <pre class="doctor">{text.value}</pre>
    </Panel>
  );
}
