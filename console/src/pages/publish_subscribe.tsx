// Messages of channels and patterns, as they come; who subscribes to what; publishing.
//
// It has a session of its own: subscriptions end with the page.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { clock, count } from '../api/format';
import { asArray, asNumber, asPairs, asText, type Reply } from '../api/reply';
import { Socket } from '../api/socket';
import { mayWrite, run, session, socketAddress } from '../state';
import { Choice, Empty, PageHead, Panel, useRefresh, WriteButton } from '../ui/parts';
import { type Column, Table } from '../ui/table';
import { attempt, say } from '../ui/toast';

interface Message {
  id: number;
  atMs: number;
  channel: string;
  pattern: string;
  text: string;
}

interface Subscription {
  name: string;
  command: 'SUBSCRIBE' | 'PSUBSCRIBE';
}

const MAX_MESSAGES = 1_000;
const REFRESH_MS = 5_000;
const MAX_CHANNELS = 1_000;

export function PublishSubscribe() {
  return (
    <>
      <PageHead title="Publish, subscribe" />
      <div class="halves">
        <Messages />
        <div class="stack">
          <Publish />
          <Channels />
        </div>
      </div>
    </>
  );
}

function Messages() {
  const messages = useSignal<Message[]>([]);
  const subscriptions = useSignal<Subscription[]>([]);
  const name = useSignal('');
  const kind = useSignal<'SUBSCRIBE' | 'PSUBSCRIBE'>('SUBSCRIBE');
  const own = useSubscriber((message) => {
    messages.value = [message, ...messages.value.slice(0, MAX_MESSAGES - 1)];
  }, subscriptions);
  const subscribe = async (isUnlocked: boolean) => {
    const wanted = { name: name.value.trim(), command: kind.value };
    if (wanted.name === '') return;
    // Unlocking opens the socket anew, which then subscribes to what stands in the list.
    const done = isUnlocked || (await attempt(() => own.run([wanted.command, wanted.name])));
    if (!done || subscriptions.value.some((one) => isSame(one, wanted))) return;
    subscriptions.value = [...subscriptions.value, wanted];
    name.value = '';
  };
  const end = async (one: Subscription) => {
    await attempt(() => own.run([one.command.replace('SUB', 'UNSUB'), one.name]));
    subscriptions.value = subscriptions.value.filter((other) => !isSame(one, other));
  };
  return (
    <Panel
      title="Messages"
      note={`${count(messages.value.length)} shown`}
      actions={
        <button type="button" onClick={() => (messages.value = [])}>
          Clear
        </button>
      }
    >
      <form
        class="view-bar"
        onSubmit={(event) => {
          event.preventDefault();
          void subscribe(false);
        }}
      >
        <Choice
          label="Subscribe to a"
          value={kind.value}
          options={[
            ['SUBSCRIBE', 'Channel'],
            ['PSUBSCRIBE', 'Pattern'],
          ]}
          onChange={(now) => (kind.value = now)}
        />
        <input
          data-search
          aria-label="Channel or pattern"
          placeholder={kind.value === 'SUBSCRIBE' ? 'news' : 'news.*'}
          value={name.value}
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
        <SubscribeButton onUnlocked={() => void subscribe(true)} />
      </form>
      {subscriptions.value.length > 0 && (
        <ul class="chips">
          {subscriptions.value.map((one) => (
            <li key={`${one.command} ${one.name}`}>
              {one.name}
              <button
                type="button"
                class="quiet small"
                aria-label={`Unsubscribe from ${one.name}`}
                onClick={() => void end(one)}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      <Table
        label="Messages"
        rows={messages.value}
        columns={COLUMNS}
        rowId={(message) => message.id}
        empty={subscriptions.value.length > 0 ? 'No message yet.' : 'Subscribe to see messages.'}
      />
    </Panel>
  );
}

/** Subscribing needs a login as changing does. */
const SubscribeButton = (props: { onUnlocked: () => void }) =>
  mayWrite.value ? (
    <button type="submit" class="primary">
      Subscribe
    </button>
  ) : (
    <WriteButton class="primary" onClick={props.onUnlocked}>
      Subscribe
    </WriteButton>
  );

const isSame = (a: Subscription, b: Subscription) => a.name === b.name && a.command === b.command;

const COLUMNS: Column<Message>[] = [
  { name: 'Time', cell: (one) => clock(one.atMs), width: '90px' },
  { name: 'Channel', cell: (one) => one.channel, by: (one) => one.channel, width: '180px' },
  { name: 'Message', cell: (one) => <code>{one.text}</code> },
];

let nextId = 1;

function messageOf(push: Reply[]): Message | undefined {
  const [kind, ...rest] = push.map(asText);
  const isPattern = kind === 'pmessage';
  if (kind !== 'message' && !isPattern) return undefined;
  const [pattern, channel, text] = isPattern ? rest : ['', ...rest];
  const id = nextId;
  nextId += 1;
  return { id, atMs: Date.now(), channel: channel ?? '', pattern: pattern ?? '', text: text ?? '' };
}

/** A socket whose subscriptions are made again when it was lost. */
function useSubscriber(
  onMessage: (message: Message) => void,
  subscriptions: { value: Subscription[]; peek(): Subscription[] },
): Socket {
  const own = useRef<Socket | undefined>(undefined);
  if (!own.current) own.current = new Socket(socketAddress);
  const socket = own.current;
  const heard = useRef(onMessage);
  heard.current = onMessage;
  const user = session.value?.user;
  useEffect(() => {
    const forget = socket.listen({
      push(push) {
        const message = messageOf(push);
        if (message) heard.current(message);
      },
    });
    socket.open();
    return () => {
      forget();
      socket.close();
    };
  }, [user, mayWrite.value]);
  useEffect(
    () =>
      socket.state.subscribe((state) => {
        if (state !== 'open') return;
        for (const one of subscriptions.peek()) {
          socket.run([one.command, one.name]).catch((error: Error) => say(error.message, 'bad'));
        }
      }),
    [],
  );
  return socket;
}

function Publish() {
  const channel = useSignal('');
  const text = useSignal('');
  const publish = async () => {
    await attempt(async () => {
      const heard = asNumber(await run(['PUBLISH', channel.value, text.value]));
      say(heard === 1 ? 'One subscriber has it.' : `${count(heard)} subscribers have it.`);
    });
  };
  return (
    <Panel title="Publish">
      <form
        class="fields-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (mayWrite.value) void publish();
        }}
      >
        <label>
          <span>Channel</span>
          <input
            required
            value={channel.value}
            onInput={(event) => (channel.value = event.currentTarget.value)}
          />
        </label>
        <label>
          <span>Message</span>
          <textarea
            rows={3}
            value={text.value}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
        </label>
        <footer>
          <WriteButton
            class="primary"
            disabled={channel.value === ''}
            onClick={() => void publish()}
          >
            Publish
          </WriteButton>
        </footer>
      </form>
    </Panel>
  );
}

interface Channel {
  name: string;
  subscribers: number;
}

function Channels() {
  const channels = useSignal<Channel[]>([]);
  const patterns = useSignal(0);
  useRefresh(async () => {
    const names = asArray(await run(['PUBSUB', 'CHANNELS']))
      .slice(0, MAX_CHANNELS)
      .map(asText);
    patterns.value = asNumber(await run(['PUBSUB', 'NUMPAT']));
    const told = asPairs(await run(['PUBSUB', 'NUMSUB', ...names]));
    channels.value = told.map(([name, number]) => ({
      name: asText(name),
      subscribers: asNumber(number),
    }));
  }, REFRESH_MS);
  return (
    <Panel title="Channels" note={`${count(patterns.value)} patterns are subscribed to`}>
      {channels.value.length === 0 ? (
        <Empty>Nobody subscribes to a channel.</Empty>
      ) : (
        <Table
          label="Channels"
          rows={channels.value}
          columns={CHANNEL_COLUMNS}
          rowId={(channel) => channel.name}
        />
      )}
    </Panel>
  );
}

const CHANNEL_COLUMNS: Column<Channel>[] = [
  { name: 'Channel', cell: (one) => one.name, by: (one) => one.name },
  {
    name: 'Subscribers',
    cell: (one) => count(one.subscribers),
    by: (one) => one.subscribers,
    number: true,
    width: '120px',
  },
];
