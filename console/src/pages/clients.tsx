// Who is connected; one client's details, what it sends, and its end.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type Client, clientsOf } from '../api/clients';
import { bytes, clock, count, duration } from '../api/format';
import { asText } from '../api/reply';
import type { Traffic } from '../api/socket';
import { lineOf } from '../api/words';
import { run, socket } from '../state';
import { ask } from '../ui/dialog';
import { Choice, Empty, PageHead, Panel, Search, useRefresh, WriteButton } from '../ui/parts';
import { type Column, Table } from '../ui/table';
import { attempt } from '../ui/toast';

const KINDS = [
  ['all', 'All'],
  ['normal', 'Normal'],
  ['pubsub', 'Subscribers'],
  ['replica', 'Replicas'],
  ['blocked', 'Waiting'],
] as const;
type Kind = (typeof KINDS)[number][0];

/** Who is watched by this number is everybody. */
const EVERYBODY = '0';

/** The list of many clients is long; it is read less often. */
const REFRESH_MS = 2_000;
const CROWD = 1_000;
const CROWD_REFRESH_MS = 10_000;

export function Clients() {
  const all = useSignal<Client[]>([]);
  const text = useSignal('');
  const kind = useSignal<Kind>('all');
  const chosen = useSignal('');
  const refresh = useRefresh(
    async () => {
      all.value = clientsOf(asText(await run(['CLIENT', 'LIST'])));
    },
    all.value.length > CROWD ? CROWD_REFRESH_MS : REFRESH_MS,
  );
  const shown = all.value.filter(
    (client) => isOfKind(client, kind.value) && matches(client, text.value),
  );
  const open = all.value.find((client) => client.id === chosen.value);
  return (
    <>
      <PageHead title="Clients" note={`${count(all.value.length)} connected`}>
        <Search label="Search clients" value={text.value} onInput={(now) => (text.value = now)} />
        <Choice
          label="Kind of clients"
          value={kind.value}
          options={KINDS}
          onChange={(now) => (kind.value = now)}
        />
        <button type="button" onClick={() => (chosen.value = EVERYBODY)}>
          All traffic
        </button>
        <button type="button" onClick={refresh}>
          Refresh
        </button>
      </PageHead>
      <div class={open || chosen.value === EVERYBODY ? 'split' : 'single'}>
        <Table
          label="Clients"
          rows={shown}
          columns={COLUMNS}
          rowId={(client) => client.id}
          chosen={chosen.value}
          onOpen={(client) => (chosen.value = client.id)}
          sorted={{ column: 'Id', down: false }}
          empty="No client matches."
        />
        {chosen.value === EVERYBODY && (
          <Panel
            title="All clients"
            actions={
              <button
                type="button"
                class="quiet"
                aria-label="Close"
                onClick={() => (chosen.value = '')}
              >
                ×
              </button>
            }
          >
            <LiveTraffic id={EVERYBODY} />
          </Panel>
        )}
        {open && (
          <Details
            key={open.id}
            client={open}
            onClose={() => (chosen.value = '')}
            onKilled={refresh}
          />
        )}
      </div>
    </>
  );
}

function isOfKind(client: Client, kind: Kind): boolean {
  const flags = client.flags;
  if (kind === 'pubsub') return flags.includes('P') || client.sub + client.psub + client.ssub > 0;
  if (kind === 'replica') return flags.includes('S');
  if (kind === 'blocked') return flags.includes('b');
  return kind === 'all' || !/[PSM]/.test(flags);
}

function matches(client: Client, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return wanted === '' || client.line.toLowerCase().includes(wanted);
}

const COLUMNS: Column<Client>[] = [
  { name: 'Id', cell: (one) => one.id, by: (one) => Number(one.id), width: '60px' },
  { name: 'Address', cell: (one) => one.addr, by: (one) => one.addr, width: '140px' },
  { name: 'Name', cell: (one) => one.name || one.library, by: (one) => one.name || one.library },
  { name: 'User', cell: (one) => one.user, by: (one) => one.user, width: '75px' },
  { name: 'Db', cell: (one) => one.db, by: (one) => one.db, number: true, width: '50px' },
  { name: 'Last command', cell: (one) => one.cmd, by: (one) => one.cmd, width: '115px' },
  {
    name: 'Age',
    cell: (one) => duration(one.age, 1),
    by: (one) => one.age,
    number: true,
    width: '75px',
  },
  {
    name: 'Idle',
    cell: (one) => duration(one.idle, 1),
    by: (one) => one.idle,
    number: true,
    width: '70px',
  },
  {
    name: 'Memory',
    cell: (one) => bytes(one.memory),
    by: (one) => one.memory,
    number: true,
    width: '86px',
  },
];

function Details(props: { client: Client; onClose: () => void; onKilled: () => void }) {
  const { client } = props;
  const kill = async () => {
    const sure = await ask({
      title: `Close the connection of client ${client.id}?`,
      text: `${client.addr} ${client.name} runs ${client.cmd || 'nothing'}. Its libraries will probably connect again.`,
      yes: 'Close it',
      danger: true,
    });
    if (!sure) return;
    const done = `Client ${client.id} is disconnected.`;
    if (await attempt(() => run(['CLIENT', 'KILL', 'ID', client.id]), done)) props.onKilled();
  };
  return (
    <Panel
      title={`Client ${client.id}`}
      note={client.addr}
      actions={
        <>
          <WriteButton class="danger" onClick={() => void kill()}>
            Kill
          </WriteButton>
          <button type="button" class="quiet" aria-label="Close" onClick={props.onClose}>
            ×
          </button>
        </>
      }
    >
      <LiveTraffic id={client.id} />
      <dl class="fields">
        {client.fields.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value || '–'}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

const MAX_TRAFFIC = 200;

/** What one client sends, or all, as long as it is asked for: MONITOR costs the server something. */
function LiveTraffic(props: { id: string }) {
  const on = useSignal(false);
  const lines = useSignal<Traffic[]>([]);
  const dropped = useSignal(0);
  useEffect(() => {
    if (!on.value) return;
    const forget = socket.listen({
      traffic(one) {
        const isWanted = props.id === EVERYBODY || one.client === props.id;
        if (isWanted) lines.value = [...lines.value.slice(1 - MAX_TRAFFIC), one];
      },
      dropped: (more) => {
        dropped.value += more;
      },
    });
    socket.watch(props.id);
    return () => {
      socket.watch(null);
      forget();
    };
  }, [on.value, props.id]);
  return (
    <div class="traffic">
      <header>
        <h3>Live traffic</h3>
        {dropped.value > 0 && <span class="note">{count(dropped.value)} not shown</span>}
        {on.value ? (
          <button type="button" onClick={() => (on.value = false)}>
            Stop
          </button>
        ) : (
          <WriteButton
            onClick={() => {
              on.value = true;
            }}
          >
            Watch
          </WriteButton>
        )}
      </header>
      {lines.value.length === 0 ? (
        <Empty>
          {on.value ? 'Nothing yet.' : 'Watching uses MONITOR, which costs the server something.'}
        </Empty>
      ) : (
        <ol class="log" tabIndex={0} aria-label="Live traffic">
          {lines.value.map((one, index) => (
            <li key={index}>
              <time>{clock(one.atMs)}</time>
              {props.id === EVERYBODY && <span class="note">{one.addr} </span>}
              <code>{lineOf(one.command)}</code>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}
