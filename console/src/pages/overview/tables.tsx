// What the overview shows in tables: workers, families of commands, databases.

import type { DatabaseFigures, FamilySample, Figures, Sample } from '../../api/figures';
import { count, known, micros, percent, short } from '../../api/format';
import { Bar, Empty, Panel } from '../../ui/parts';
import { type Column, PlainTable } from '../../ui/table';

interface WorkerRow {
  id: number;
  load: number;
  connections: number | undefined;
  lockParks: number | undefined;
}

const WORKER_COLUMNS: Column<WorkerRow>[] = [
  { name: 'Worker', cell: ({ id }) => id },
  {
    name: 'Load',
    cell: ({ id, load }) => (
      <div class="load">
        <Bar share={load} label={`Load of worker ${id}`} warn={load > 0.9} />
        <span>{known(load, percent)}</span>
      </div>
    ),
    width: '40%',
  },
  { name: 'Connections', cell: ({ connections }) => known(connections, count), number: true },
  { name: 'Lock parks', cell: ({ lockParks }) => known(lockParks, short), number: true },
];

export function Workers(props: { figures: Figures; sample: Sample | undefined }) {
  const rows = (props.figures.workers ?? []).map(({ id, connections, lockParks }, index) => {
    const load = props.sample?.load[index] ?? Number.NaN;
    return { id, load, connections, lockParks };
  });
  const lane = props.figures.lane;
  if (rows.length === 0) return null;
  return (
    <Panel title="Workers" note="share of time each is busy">
      <PlainTable rows={rows} columns={WORKER_COLUMNS} rowId={({ id }) => id} />
      <p class="note">
        Slow lane: {known(lane?.threads, count)} threads, {known(lane?.waiting, count)} jobs wait,{' '}
        {known(lane?.jobs, count)} done.
      </p>
    </Panel>
  );
}

type FamilyRow = FamilySample & { name: string };

const FAMILY_COLUMNS: Column<FamilyRow>[] = [
  { name: 'Family', cell: ({ name }) => name },
  { name: 'Commands/s', cell: ({ rate }) => short(rate), number: true },
  { name: 'p50', cell: ({ p50 }) => micros(p50), number: true },
  { name: 'p99', cell: ({ p99 }) => micros(p99), number: true },
];

export function Families(props: { sample: Sample | undefined }) {
  const rows = Object.entries(props.sample?.families ?? {})
    .map(([name, family]) => ({ ...family, name }))
    .filter(({ rate }) => rate > 0)
    .sort((a, b) => b.rate - a.rate);
  return (
    <Panel title="Families of commands" note="in the last second">
      {rows.length === 0 ? (
        <Empty>No command in the last second.</Empty>
      ) : (
        <PlainTable rows={rows} columns={FAMILY_COLUMNS} rowId={({ name }) => name} />
      )}
    </Panel>
  );
}

const DATABASE_COLUMNS: Column<DatabaseFigures>[] = [
  { name: 'Database', cell: ({ db }) => db },
  { name: 'Keys', cell: ({ keys }) => count(keys), number: true },
  { name: 'Expire', cell: ({ expires }) => known(expires, count), number: true },
];

export function Databases(props: { figures: Figures }) {
  const rows = (props.figures.memory?.byDb ?? []).filter(({ keys }) => keys > 0);
  return (
    <Panel title="Databases">
      {rows.length === 0 ? (
        <Empty>No keys.</Empty>
      ) : (
        <PlainTable rows={rows} columns={DATABASE_COLUMNS} rowId={({ db }) => db} />
      )}
    </Panel>
  );
}
