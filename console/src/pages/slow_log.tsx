// The commands that took long, and those with large requests or replies.

import { useSignal } from '@preact/signals';
import { bytes, micros, moment } from '../api/format';
import { asArray, asNumber, asRecord, asText, asWord, type Word } from '../api/reply';
import { lineOf } from '../api/words';
import { run } from '../state';
import { ask, Dialog } from '../ui/dialog';
import { Choice, copy, PageHead, Search, useRefresh, WriteButton } from '../ui/parts';
import { type Column, Table } from '../ui/table';
import { attempt } from '../ui/toast';

const LOGS = [
  ['slow', 'Slow'],
  ['large-request', 'Large requests'],
  ['large-reply', 'Large replies'],
] as const;
type Log = (typeof LOGS)[number][0];

const THRESHOLDS: Record<Log, string> = {
  slow: 'slowlog-log-slower-than',
  'large-request': 'commandlog-request-larger-than',
  'large-reply': 'commandlog-reply-larger-than',
};
const ENTRIES = '500';
const REFRESH_MS = 5_000;

interface Entry {
  id: number;
  atMs: number;
  /** Microseconds, or bytes in the other logs. */
  amount: number;
  words: Word[];
  addr: string;
  name: string;
}

export function SlowLog() {
  const log = useSignal<Log>('slow');
  const text = useSignal('');
  const entries = useSignal<Entry[]>([]);
  const threshold = useSignal('');
  const open = useSignal<Entry | undefined>(undefined);
  const refresh = useRefresh(
    async () => {
      const words =
        log.value === 'slow'
          ? ['SLOWLOG', 'GET', ENTRIES]
          : ['COMMANDLOG', 'GET', ENTRIES, log.value];
      const asked = log.value;
      const got = asArray(await run(words)).map(entryOf);
      if (asked === log.value) entries.value = got;
      const name = THRESHOLDS[log.value];
      threshold.value = asText(asRecord(await run(['CONFIG', 'GET', name]))[name]);
    },
    REFRESH_MS,
    [log.value],
  );
  const wanted = text.value.toLowerCase();
  const shown = entries.value.filter((entry) => lineOf(entry.words).toLowerCase().includes(wanted));
  const reset = async () => {
    const sure = await ask({
      title: 'Forget these entries?',
      text: 'They are removed from the server.',
      yes: 'Forget them',
      danger: true,
    });
    const words = log.value === 'slow' ? ['SLOWLOG', 'RESET'] : ['COMMANDLOG', 'RESET', log.value];
    if (sure && (await attempt(() => run(words), 'The log is empty.'))) refresh();
  };
  return (
    <>
      <PageHead title="Slow log" note={noteOf(log.value, threshold.value)}>
        <Search label="Search the log" value={text.value} onInput={(now) => (text.value = now)} />
        <Choice
          label="Log"
          value={log.value}
          options={LOGS}
          onChange={(now) => (log.value = now)}
        />
        <WriteButton onClick={() => void reset()}>Forget</WriteButton>
      </PageHead>
      <div class="single">
        <Table
          label="Entries of the log"
          rows={shown}
          columns={columnsOf(log.value)}
          rowId={(entry) => entry.id}
          onOpen={(entry) => (open.value = entry)}
          empty="No command was above the threshold."
        />
      </div>
      {open.value && <Whole entry={open.value} onClose={() => (open.value = undefined)} />}
    </>
  );
}

function entryOf(reply: unknown): Entry {
  const [id, at, amount, words, addr, name] = asArray(reply as never);
  return {
    id: asNumber(id),
    atMs: asNumber(at) * 1000,
    amount: asNumber(amount),
    words: asArray(words).map(asWord),
    addr: asText(addr),
    name: asText(name),
  };
}

function noteOf(log: Log, threshold: string): string {
  if (threshold === '') return '';
  const value = Number(threshold);
  if (value < 0) return `off: ${THRESHOLDS[log]} is ${threshold}`;
  return `above ${log === 'slow' ? micros(value) : bytes(value)} (${THRESHOLDS[log]})`;
}

const columnsOf = (log: Log): Column<Entry>[] => [
  {
    name: 'Time',
    cell: (entry) => moment(entry.atMs),
    by: (entry) => entry.id,
    width: '185px',
  },
  {
    name: log === 'slow' ? 'Took' : 'Size',
    cell: (entry) => (log === 'slow' ? micros(entry.amount) : bytes(entry.amount)),
    by: (entry) => entry.amount,
    number: true,
    width: '100px',
  },
  { name: 'Command', cell: (entry) => <code>{lineOf(entry.words)}</code> },
  {
    name: 'Client',
    cell: (entry) => entry.name || entry.addr,
    by: (entry) => entry.addr,
    width: '180px',
  },
];

function Whole(props: { entry: Entry; onClose: () => void }) {
  const line = lineOf(props.entry.words);
  return (
    <Dialog title={`Entry ${props.entry.id}`} onClose={props.onClose} wide>
      <p class="note">
        {moment(props.entry.atMs)}, by {props.entry.addr} {props.entry.name}
      </p>
      <pre class="value">{line}</pre>
      <footer>
        <button type="button" onClick={() => void copy(line)}>
          Copy
        </button>
      </footer>
    </Dialog>
  );
}
