// One key: what it is, what it costs, when it ends; its value below, by type.

import { batch, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { bytes, count, duration, moment } from '../../api/format';
import { asNumber, asText, errorOf, type Word } from '../../api/reply';
import { visible } from '../../api/words';
import { run, socket } from '../../state';
import { ask } from '../../ui/dialog';
import { FormDialog } from '../../ui/form';
import { copy, Empty, TypeBadge, WriteButton } from '../../ui/parts';
import { attempt, say } from '../../ui/toast';
import { Collection } from './collection';
import { commandsOf } from './copy_as';
import { KINDS, LENGTHS } from './kinds';
import { StreamView } from './stream_view';
import { StringView } from './string_view';

interface About {
  type: string;
  /** Milliseconds; -1: never. */
  ttlMs: number;
  bytes: number;
  encoding: string;
  length: number;
}

export function Detail(props: {
  name: Word;
  db: number;
  onClose: () => void;
  onRenamed: (name: Word) => void;
  onGone: () => void;
}) {
  const { name, db } = props;
  const about = useSignal<About | undefined>(undefined);
  const dialog = useSignal<'' | 'ttl' | 'rename'>('');
  /** How often somebody asked to see it anew: the views read again then. */
  const refreshes = useSignal(0);
  const read = () =>
    attempt(async () => {
      about.value = await aboutOf(name, db);
    });
  const refresh = () =>
    attempt(async () => {
      const now = await aboutOf(name, db);
      // Together: the view of another type would read twice.
      batch(() => {
        about.value = now;
        refreshes.value += 1;
      });
    });
  useEffect(() => void read(), []);
  const now = about.value;
  const remove = async () => {
    const sure = await ask({
      title: `Delete this key in database ${db}?`,
      text: <code>{asText(name)}</code>,
      yes: 'Delete',
      danger: true,
    });
    if (sure && (await attempt(() => run(['UNLINK', name], db), 'Deleted.'))) props.onGone();
  };
  const copyCommands = (type: string) =>
    attempt(async () => copy(await commandsOf((words) => run(words, db), name, type)));
  return (
    <section class="panel detail" aria-label="Key">
      <header>
        {now && <TypeBadge type={now.type} />}
        <KeyName name={visible(asText(name)) || '(empty)'} />
        <button type="button" class="quiet" aria-label="Close" onClick={props.onClose}>
          ×
        </button>
      </header>
      {now && now.type !== 'none' && <Facts about={now} />}
      <div class="view-bar">
        <button type="button" class="small" onClick={() => void copy(asText(name))}>
          Copy name
        </button>
        <button
          type="button"
          class="small"
          disabled={!now}
          onClick={() => void copyCommands(now?.type ?? '')}
        >
          Copy as command
        </button>
        <button type="button" class="small" onClick={() => void refresh()}>
          Refresh
        </button>
        <span class="space" />
        <WriteButton class="small" onClick={() => (dialog.value = 'ttl')}>
          TTL
        </WriteButton>
        <WriteButton class="small" onClick={() => (dialog.value = 'rename')}>
          Rename
        </WriteButton>
        <WriteButton class="small danger" onClick={() => void remove()}>
          Delete
        </WriteButton>
      </div>
      {now && (
        <View
          name={name}
          db={db}
          about={now}
          refreshes={refreshes.value}
          onChanged={() => void read()}
        />
      )}
      {dialog.value === 'ttl' && (
        <TtlDialog
          name={name}
          db={db}
          ttlMs={now?.ttlMs ?? -1}
          onDone={() => void read()}
          onClose={() => (dialog.value = '')}
        />
      )}
      {dialog.value === 'rename' && (
        <FormDialog
          title="Rename"
          fields={[{ name: 'New name', value: typeof name === 'string' ? name : '' }]}
          save="Rename"
          onSave={async (values) => {
            const wanted = values['New name'] ?? '';
            const done = asNumber(await run(['RENAMENX', name, wanted], db));
            if (done !== 1) throw new Error('There is a key of that name.');
            props.onRenamed(wanted);
          }}
          onClose={() => (dialog.value = '')}
        />
      )}
    </section>
  );
}

const LONG_NAME = 160;

/** A long name is shortened until somebody asks for all of it. */
function KeyName(props: { name: string }) {
  const whole = useSignal(props.name.length <= LONG_NAME);
  const shown = whole.value ? props.name : `${props.name.slice(0, LONG_NAME)}…`;
  return (
    <h2 class="key-name">
      {shown}{' '}
      {!whole.value && (
        <button type="button" class="small" onClick={() => (whole.value = true)}>
          Whole name
        </button>
      )}
    </h2>
  );
}

async function aboutOf(name: Word, db: number): Promise<About> {
  const type = asText(await run(['TYPE', name], db));
  const length = LENGTHS[type];
  const asked: Word[][] = [
    ['PTTL', name],
    ['MEMORY', 'USAGE', name],
    ['OBJECT', 'ENCODING', name],
    ...(length ? [[length, name]] : []),
  ];
  const [ttl, usage, encoding, long] = await socket.askAll(asked, db);
  return {
    type,
    ttlMs: asNumber(ttl),
    bytes: asNumber(usage),
    encoding: encoding === undefined || errorOf(encoding) !== undefined ? '' : asText(encoding),
    length: long === undefined ? Number.NaN : asNumber(long),
  };
}

function Facts(props: { about: About }) {
  const { about } = props;
  const unit = about.type === 'string' ? 'bytes' : 'elements';
  const ends = about.ttlMs >= 0 ? moment(Date.now() + about.ttlMs) : '';
  return (
    <p class="facts">
      <span>
        {count(about.length)} {unit}
      </span>
      <span>{bytes(about.bytes)} of memory</span>
      <span>{about.encoding}</span>
      <span title={ends}>
        {about.ttlMs < 0 ? 'does not expire' : `expires in ${duration(about.ttlMs / 1000)}`}
      </span>
    </p>
  );
}

function View(props: {
  name: Word;
  db: number;
  about: About;
  refreshes: number;
  onChanged: () => void;
}) {
  const { about, ...rest } = props;
  const common = { ...rest, length: about.length };
  const kind = KINDS[about.type];
  if (about.type === 'none') return <Empty>This key is gone.</Empty>;
  if (about.type === 'string') return <StringView {...common} />;
  if (about.type === 'stream') return <StreamView {...common} />;
  if (!kind) return <Empty>There is no view for values of the type {about.type}.</Empty>;
  return <Collection {...common} kind={kind} type={about.type} />;
}

function TtlDialog(props: {
  name: Word;
  db: number;
  ttlMs: number;
  onDone: () => void;
  onClose: () => void;
}) {
  const { name, db } = props;
  return (
    <FormDialog
      title="Time to live"
      fields={[
        {
          name: 'Seconds',
          hint: 'from now; nothing: the key never expires',
          value: props.ttlMs < 0 ? '' : String(Math.ceil(props.ttlMs / 1000)),
          optional: true,
        },
      ]}
      save="Save"
      onSave={async ({ Seconds = '' }) => {
        const text = Seconds.trim();
        if (text !== '' && !(Number(text) > 0)) throw new Error('A number above 0, please.');
        if (text === '') await run(['PERSIST', name], db);
        else await run(['PEXPIRE', name, String(Math.round(Number(text) * 1000))], db);
        say(text === '' ? 'The key does not expire.' : `It expires in ${duration(Number(text))}.`);
        props.onDone();
      }}
      onClose={props.onClose}
    />
  );
}
