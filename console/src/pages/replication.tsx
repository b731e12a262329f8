// Who follows whom, and how far behind: the primary of this server, its replicas, the backlog.

import { useSignal } from '@preact/signals';
import { bytes, count, duration, known, percent } from '../api/format';
import { infoOf } from '../api/info';
import { type Primary, type Replica, type Replication, replicationOf } from '../api/replication';
import { asText } from '../api/reply';
import { run } from '../state';
import { Bar, Empty, PageHead, Panel, Tile, useRefresh } from '../ui/parts';
import { type Column, PlainTable } from '../ui/table';

const REFRESH_MS = 2_000;
/** A replica that was silent for longer is told as trouble; it confirms once a second. */
const SILENT_S = 5;

export function ReplicationPage() {
  const shown = useSignal<Replication | undefined>(undefined);
  useRefresh(async () => {
    shown.value = replicationOf(infoOf(asText(await run(['INFO', 'replication']))));
  }, REFRESH_MS);
  const now = shown.value;
  if (!now) return <PageHead title="Replication" />;
  return (
    <>
      <PageHead title="Replication" note={now.isReplica ? 'a replica' : 'a primary'} />
      {now.primary && <PrimaryPanel primary={now.primary} />}
      <Replicas replicas={now.replicas} />
      <Stream now={now} />
    </>
  );
}

const ago = (seconds: number) => `${duration(seconds)} ago`;

function PrimaryPanel({ primary }: { primary: Primary }) {
  const { copy } = primary;
  const state = primary.isUp ? 'up' : copy ? 'full copy' : 'down';
  return (
    <Panel title="Primary" note={primary.name}>
      <div class="tiles">
        <Tile
          name="Link"
          value={state}
          note={primary.isUp || copy ? '' : `for ${known(primary.downS, duration)}`}
          warn={state === 'down'}
        />
        <Tile name="Heard" value={known(primary.silentS, ago)} />
        {copy && (
          <Tile
            name="Copied"
            value={bytes(copy.readBytes)}
            note={`of ${known(copy.totalBytes, bytes)}`}
          />
        )}
      </div>
      {copy && copy.totalBytes > 0 && (
        <Bar share={copy.readBytes / copy.totalBytes} label="What is copied" />
      )}
    </Panel>
  );
}

const REPLICA_COLUMNS: Column<Replica>[] = [
  { name: 'Replica', cell: ({ name }) => name },
  {
    name: 'State',
    cell: ({ state, silentS }) => {
      const isSilent = silentS > SILENT_S;
      const kind = isSilent ? 'bad' : state === 'online' ? 'good' : '';
      return <span class={`pill ${kind}`}>{isSilent ? 'silent' : state}</span>;
    },
  },
  { name: 'Offset', cell: ({ offset }) => known(offset, count), number: true },
  { name: 'Behind', cell: ({ behindBytes }) => known(behindBytes, bytes), number: true },
  { name: 'Heard', cell: ({ silentS }) => known(silentS, ago), number: true },
];

const Replicas = ({ replicas }: { replicas: Replica[] }) => (
  <Panel title="Replicas" note={String(replicas.length)}>
    {replicas.length === 0 ? (
      <Empty>No replica is connected.</Empty>
    ) : (
      <div class="scrolls" tabIndex={0} role="region" aria-label="Replicas">
        <PlainTable rows={replicas} columns={REPLICA_COLUMNS} rowId={({ name }) => name} />
      </div>
    )}
  </Panel>
);

/** The stream of changes: its history, how far it is, what of it is kept. */
function Stream({ now }: { now: Replication }) {
  const { backlog, former } = now;
  return (
    <Panel title="Stream of changes">
      <div class="tiles">
        <Tile name="Offset" value={known(now.offset, count)} note="bytes since it began" />
        <Tile
          name="Backlog"
          value={backlog ? bytes(backlog.used) : 'none'}
          note={
            backlog
              ? `${percent(backlog.used / backlog.size)} of ${bytes(backlog.size)}`
              : 'until a replica has connected'
          }
        />
        {backlog && (
          <Tile
            name="Kept from"
            value={count(backlog.first)}
            note="a replica behind it is copied"
          />
        )}
      </div>
      <dl class="fields">
        <div>
          <dt>History</dt>
          <dd>
            <code>{now.history}</code>
          </dd>
        </div>
        {former && (
          <div>
            <dt>Former history</dt>
            <dd>
              <code>{former.history}</code> up to {count(former.offset)}
            </dd>
          </div>
        )}
      </dl>
    </Panel>
  );
}
