// A stream: its newest entries, by pages; its groups with their consumers and what is pending.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { count, duration, moment } from '../../api/format';
import {
  asArray,
  asNumber,
  asPairs,
  asRecord,
  asText,
  asWord,
  type Reply,
  type Word,
} from '../../api/reply';
import { lineOf, typed, wordsOf } from '../../api/words';
import { run } from '../../state';
import { ask, Dialog } from '../../ui/dialog';
import { FormDialog } from '../../ui/form';
import { Choice, copy, Empty, WriteButton } from '../../ui/parts';
import { type Column, Table } from '../../ui/table';
import { attempt, say } from '../../ui/toast';

const PAGE = 100;
const PARTS = [
  ['entries', 'Entries'],
  ['groups', 'Groups'],
] as const;

interface Props {
  name: Word;
  db: number;
  length: number;
  refreshes: number;
  onChanged: () => void;
}

interface Entry {
  id: string;
  words: Word[];
}

export function StreamView(props: Props) {
  const part = useSignal<(typeof PARTS)[number][0]>('entries');
  const choice = (
    <Choice
      label="Part"
      value={part.value}
      options={PARTS}
      onChange={(now) => (part.value = now)}
    />
  );
  return part.value === 'entries' ? (
    <Entries {...props} choice={choice} />
  ) : (
    <>
      <div class="view-bar">{choice}</div>
      <Groups {...props} />
    </>
  );
}

const entryOf = (reply: Reply): Entry => {
  const [id, fields] = asArray(reply);
  return { id: asText(id), words: asPairs(fields).flat().map(asWord) };
};

function Entries(props: Props & { choice: preact.JSX.Element }) {
  const { name, db } = props;
  const entries = useSignal<Entry[]>([]);
  const atEnd = useSignal(false);
  const adding = useSignal(false);
  const open = useSignal<Entry | undefined>(undefined);
  const read = (from: string) =>
    attempt(async () => {
      const got = await run(['XREVRANGE', name, from, '-', 'COUNT', String(PAGE)], db);
      const page = asArray(got).map(entryOf);
      entries.value = from === '+' ? page : [...entries.value, ...page];
      atEnd.value = page.length < PAGE;
    });
  useEffect(() => void read('+'), [props.length, props.refreshes]);
  const remove = async (entry: Entry) => {
    const sure = await ask({
      title: `Delete entry ${entry.id} in database ${db}?`,
      text: <code>{lineOf(entry.words)}</code>,
      yes: 'Delete',
      danger: true,
    });
    if (sure && (await attempt(() => run(['XDEL', name, entry.id], db), 'Deleted.')))
      props.onChanged();
  };
  return (
    <>
      <div class="view-bar">
        {props.choice}
        <span class="note">
          {count(entries.value.length)} of {count(props.length)}, newest first
        </span>
        {!atEnd.value && (
          <button
            type="button"
            class="small"
            onClick={() => void read(`(${entries.value.at(-1)?.id ?? '+'}`)}
          >
            {PAGE} more
          </button>
        )}
        <span class="space" />
        <WriteButton class="small" onClick={() => (adding.value = true)}>
          Add
        </WriteButton>
      </div>
      <Table
        label="Entries"
        rows={entries.value}
        columns={entryColumns((entry) => void remove(entry))}
        rowId={(entry) => entry.id}
        onOpen={(entry) => (open.value = entry)}
        empty="No entry."
      />
      {open.value && <EntryDialog entry={open.value} onClose={() => (open.value = undefined)} />}
      {adding.value && (
        <FormDialog
          title="Add an entry"
          fields={[{ name: 'Fields', hint: 'as field value field value', long: true }]}
          save="Add"
          onSave={async ({ Fields = '' }) => {
            await run(['XADD', name, '*', ...wordsOf(Fields)], db);
            say('Added.');
            props.onChanged();
          }}
          onClose={() => (adding.value = false)}
        />
      )}
    </>
  );
}

const entryColumns = (remove: (entry: Entry) => void): Column<Entry>[] => [
  { name: 'Id', cell: (entry) => <code>{entry.id}</code>, width: '190px' },
  { name: 'Time', cell: (entry) => moment(Number(entry.id.split('-')[0])), width: '185px' },
  { name: 'Fields', cell: (entry) => <code>{lineOf(entry.words)}</code> },
  {
    name: 'Remove',
    silent: true,
    width: '44px',
    cell: (entry) => (
      <WriteButton
        class="quiet small"
        aria-label={`Delete ${entry.id}`}
        onClick={() => remove(entry)}
      >
        ×
      </WriteButton>
    ),
  },
];

function EntryDialog(props: { entry: Entry; onClose: () => void }) {
  const { entry } = props;
  return (
    <Dialog title={entry.id} onClose={props.onClose} wide>
      <dl class="fields">
        {asPairs(entry.words as Reply[]).map(([field, value], index) => (
          <div key={index}>
            <dt>{asText(field)}</dt>
            <dd>
              <pre>{asText(value)}</pre>
            </dd>
          </div>
        ))}
      </dl>
      <footer>
        <button type="button" onClick={() => void copy(entry.words.map(typed).join(' '))}>
          Copy
        </button>
      </footer>
    </Dialog>
  );
}

interface Group {
  name: string;
  consumers: number;
  pending: number;
  lastId: string;
  lag: string;
}

function Groups(props: Props) {
  const { name, db } = props;
  const groups = useSignal<Group[] | undefined>(undefined);
  const open = useSignal('');
  useEffect(() => {
    void attempt(async () => {
      groups.value = asArray(await run(['XINFO', 'GROUPS', name], db)).map(groupOf);
    });
  }, [props.length, props.refreshes]);
  if (groups.value?.length === 0) return <Empty>This stream has no groups.</Empty>;
  return (
    <div class="groups">
      <Table
        label="Groups"
        rows={groups.value ?? []}
        columns={GROUP_COLUMNS}
        rowId={(group) => group.name}
        chosen={open.value}
        onOpen={(group) => (open.value = open.value === group.name ? '' : group.name)}
      />
      {open.value && <Consumers key={open.value} {...props} group={open.value} />}
    </div>
  );
}

function groupOf(reply: Reply): Group {
  const told = asRecord(reply);
  return {
    name: asText(told.name),
    consumers: asNumber(told.consumers),
    pending: asNumber(told.pending),
    lastId: asText(told['last-delivered-id']),
    lag: told.lag === null || told.lag === undefined ? '–' : count(asNumber(told.lag)),
  };
}

const GROUP_COLUMNS: Column<Group>[] = [
  { name: 'Group', cell: (group) => group.name, by: (group) => group.name },
  {
    name: 'Consumers',
    cell: (group) => count(group.consumers),
    by: (group) => group.consumers,
    number: true,
  },
  {
    name: 'Pending',
    cell: (group) => count(group.pending),
    by: (group) => group.pending,
    number: true,
  },
  { name: 'Lag', cell: (group) => group.lag, number: true },
  { name: 'Last delivered', cell: (group) => <code>{group.lastId}</code>, width: '190px' },
];

interface Consumer {
  name: string;
  pending: number;
  idleMs: number;
}

interface Pending {
  id: string;
  consumer: string;
  idleMs: number;
  deliveries: number;
}

function Consumers(props: Props & { group: string }) {
  const consumers = useSignal<Consumer[]>([]);
  const pending = useSignal<Pending[]>([]);
  useEffect(() => {
    void attempt(async () => {
      const got = await run(['XINFO', 'CONSUMERS', props.name, props.group], props.db);
      consumers.value = asArray(got).map((reply) => {
        const told = asRecord(reply);
        return {
          name: asText(told.name),
          pending: asNumber(told.pending),
          idleMs: asNumber(told.idle),
        };
      });
      const waiting = await run(
        ['XPENDING', props.name, props.group, '-', '+', String(PAGE)],
        props.db,
      );
      pending.value = asArray(waiting).map((reply) => {
        const [id, consumer, idle, deliveries] = asArray(reply);
        return {
          id: asText(id),
          consumer: asText(consumer),
          idleMs: asNumber(idle),
          deliveries: asNumber(deliveries),
        };
      });
    });
  }, [props.group, props.refreshes]);
  return (
    <div class="groups">
      <h3>Consumers of {props.group}</h3>
      <Table
        label="Consumers"
        rows={consumers.value}
        columns={CONSUMER_COLUMNS}
        rowId={(one) => one.name}
        empty="No consumer."
      />
      <h3>Pending, the oldest {PAGE}</h3>
      <Table
        label="Pending entries"
        rows={pending.value}
        columns={PENDING_COLUMNS}
        rowId={(one) => one.id}
        empty="Nothing is pending."
      />
    </div>
  );
}

const CONSUMER_COLUMNS: Column<Consumer>[] = [
  { name: 'Consumer', cell: (one) => one.name, by: (one) => one.name },
  { name: 'Pending', cell: (one) => count(one.pending), by: (one) => one.pending, number: true },
  {
    name: 'Idle',
    cell: (one) => duration(one.idleMs / 1000),
    by: (one) => one.idleMs,
    number: true,
  },
];

const PENDING_COLUMNS: Column<Pending>[] = [
  { name: 'Id', cell: (one) => <code>{one.id}</code>, width: '190px' },
  { name: 'Consumer', cell: (one) => one.consumer, by: (one) => one.consumer },
  {
    name: 'Idle',
    cell: (one) => duration(one.idleMs / 1000),
    by: (one) => one.idleMs,
    number: true,
  },
  {
    name: 'Deliveries',
    cell: (one) => count(one.deliveries),
    by: (one) => one.deliveries,
    number: true,
  },
];
