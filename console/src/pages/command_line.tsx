// A command line with completion, help and history. It has a session of its own, so that SELECT,
// MULTI and WATCH do not reach other pages.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { CommandSession } from '../api/command_session';
import { type CommandRow, readCommands } from '../api/http';
import { asText, type Reply, type Word } from '../api/reply';
import { holdsSecret } from '../api/secrets';
import { completionsOf, rowOf, syntaxOf } from '../api/syntax';
import { wordsOf } from '../api/words';
import { mayWrite, session, socketAddress } from '../state';
import { ask } from '../ui/dialog';
import { PageHead } from '../ui/parts';
import { ReplyView } from '../ui/reply';
import { attempt, say } from '../ui/toast';

interface Answered {
  id: number;
  line: string;
  db: number;
  reply: Reply | undefined;
  tookMs: number;
}

const MAX_ANSWERED = 200;
const MAX_HISTORY = 300;
/** They are asked about before they run. */
const GRAVE =
  /^(FLUSHALL|FLUSHDB|SHUTDOWN|SWAPDB|KEYS|DEBUG|FAILOVER|REPLICAOF|SLAVEOF|ACL DELUSER|SCRIPT KILL)\b/;
/** They have a page of their own. */
const ELSEWHERE: Record<string, string> = {
  SUBSCRIBE: 'The page "Publish, subscribe" shows messages.',
  PSUBSCRIBE: 'The page "Publish, subscribe" shows messages.',
  SSUBSCRIBE: 'The page "Publish, subscribe" shows messages.',
  MONITOR: 'The page "Clients" shows the live traffic of a client.',
};

let nextId = 1;
/** Kept while one looks at another page. */
const kept: { answered: Answered[]; rows: CommandRow[] } = { answered: [], rows: [] };

/** What was typed before, without what earlier versions should not have kept. */
function storedHistory(): string[] {
  try {
    const stored = JSON.parse(localStorage.getItem('history') ?? '[]') as string[];
    const history = stored.filter((line) => !holdsSecret(line));
    if (history.length < stored.length) store(history);
    return history;
  } catch {
    return [];
  }
}

const store = (history: string[]) => localStorage.setItem('history', JSON.stringify(history));

export function CommandLine() {
  const answered = useSignal(kept.answered);
  const rows = useSignal(kept.rows);
  const line = useSignal('');
  const own = useOwnSession();
  const db = own.db;
  const foot = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void attempt(async () => {
      if (kept.rows.length === 0) kept.rows = await readCommands();
      rows.value = kept.rows;
    });
  }, []);
  useEffect(() => {
    kept.answered = answered.value;
    foot.current?.scrollIntoView({ block: 'end' });
  }, [answered.value]);
  const run = async (text: string) => {
    const began = performance.now();
    const one: Answered = { id: nextId, line: text, db: db.value, reply: undefined, tookMs: 0 };
    nextId += 1;
    answered.value = [...answered.value.slice(1 - MAX_ANSWERED), one];
    const reply = await replyTo(own, text);
    const done = { ...one, reply, tookMs: performance.now() - began };
    answered.value = answered.value.map((other) => (other.id === one.id ? done : other));
  };
  return (
    <div class="terminal">
      <PageHead
        title="Command line"
        note={
          mayWrite.value
            ? `user ${session.value?.user ?? 'default'}`
            : 'read-only: writes are refused until you unlock'
        }
      >
        <button type="button" onClick={() => (answered.value = [])}>
          Clear
        </button>
      </PageHead>
      <div class="answers panel" tabIndex={0} role="log" aria-label="Replies">
        {answered.value.length === 0 && <Hint />}
        {answered.value.map((one) => (
          <article key={one.id}>
            <header>
              <code>
                <span class="prompt">db{one.db}&gt;</span> {one.line}
              </code>
              {one.reply !== undefined && <span class="note">{one.tookMs.toFixed(1)} ms</span>}
            </header>
            {one.reply === undefined ? (
              <span class="note">…</span>
            ) : (
              <ReplyView reply={one.reply} />
            )}
          </article>
        ))}
        <div ref={foot} />
      </div>
      <Input line={line} rows={rows.value} db={db.value} onRun={run} />
    </div>
  );
}

const Hint = () => (
  <p class="empty">
    Type a command. <kbd>Tab</kbd> completes, <kbd>↑</kbd> brings back what was typed, HELP and a
    name explains.
  </p>
);

function useOwnSession(): CommandSession {
  const own = useRef<CommandSession | undefined>(undefined);
  if (!own.current) own.current = new CommandSession(socketAddress, (text) => say(text, 'bad'));
  const user = session.value?.user;
  useEffect(() => {
    own.current?.open();
    return () => own.current?.close();
  }, [user, mayWrite.value]);
  return own.current;
}

async function replyTo(own: CommandSession, line: string): Promise<Reply> {
  let words: Word[];
  try {
    words = wordsOf(line);
  } catch (error) {
    return { error: (error as Error).message };
  }
  const name = asText(words[0]).toUpperCase();
  if (name === 'HELP') return helpOn(words.slice(1).map(asText).join(' '));
  const elsewhere = ELSEWHERE[name];
  if (elsewhere) return { error: elsewhere };
  if (GRAVE.test(line.trim().toUpperCase()) && mayWrite.value) {
    const sure = await ask({
      title: `Run ${name}?`,
      text: <code>{line}</code>,
      yes: 'Run it',
      danger: true,
    });
    if (!sure) return { error: 'Not run.' };
  }
  try {
    return await own.ask(words);
  } catch (error) {
    return { error: (error as Error).message };
  }
}

function helpOn(name: string): Reply {
  const row = rowOf(kept.rows, name);
  if (!row) return { error: `No command is named ${name}.` };
  const since = row.since ? `\nsince: ${row.since}` : '';
  const text = `${row.name} ${syntaxOf(row)}\n${row.summary}\nfamily: ${row.family}${since}`;
  return { text, format: 'txt' };
}

function Input(props: {
  line: { value: string };
  rows: CommandRow[];
  db: number;
  onRun: (line: string) => Promise<void>;
}) {
  const { line, rows } = props;
  const history = useRef(storedHistory());
  /** Where in the history the line is from; the end: it is new. */
  const at = useRef(history.current.length);
  const chosen = useSignal(0);
  const shows = useSignal(true);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const row = rowOf(rows, line.value);
  const isNamed = row !== undefined && line.value.length > row.name.length;
  const choices = shows.value && !isNamed ? completionsOf(rows, line.value) : [];
  const put = (text: string) => {
    line.value = text;
    chosen.value = 0;
  };
  const run = () => {
    const text = line.value.trim();
    if (text === '') return;
    if (!holdsSecret(text)) {
      history.current = [...history.current.filter((one) => one !== text), text].slice(
        -MAX_HISTORY,
      );
      store(history.current);
    }
    at.current = history.current.length;
    put('');
    void props.onRun(text);
  };
  const complete = () => {
    const row = choices[chosen.value];
    if (row) put(`${row.name} `);
  };
  const move = (step: number) => {
    at.current = Math.max(0, Math.min(history.current.length, at.current + step));
    shows.value = false;
    put(history.current[at.current] ?? '');
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === 'Enter') run();
    else if (event.key === 'Tab' && choices.length > 0 && !event.shiftKey) complete();
    else if (event.key === 'ArrowUp') move(-1);
    else if (event.key === 'ArrowDown') move(1);
    else if (event.ctrlKey && (event.key === 'n' || event.key === 'p')) {
      const step = event.key === 'n' ? 1 : choices.length - 1;
      chosen.value = choices.length > 0 ? (chosen.value + step) % choices.length : 0;
    } else return;
    event.preventDefault();
  };
  return (
    <div class="command-input">
      {choices.length > 0 && (
        <ul id="completions" role="listbox" aria-label="Commands">
          {choices.map((one, index) => (
            <li
              key={one.name}
              id={`completion-${index}`}
              role="option"
              aria-selected={index === chosen.value}
              onMouseDown={(event) => {
                event.preventDefault();
                put(`${one.name} `);
              }}
            >
              <code>
                <b>{one.name}</b> {syntaxOf(one)}
              </code>
              <span class="note">{one.summary}</span>
            </li>
          ))}
        </ul>
      )}
      {isNamed && (
        <p class="syntax">
          <code>
            <b>{row.name}</b> {syntaxOf(row)}
          </code>
          <span class="note">{row.summary}</span>
        </p>
      )}
      <label>
        <span class="prompt">db{props.db}&gt;</span>
        <input
          ref={field}
          data-search
          aria-label="Command"
          role="combobox"
          aria-expanded={choices.length > 0}
          aria-controls="completions"
          aria-activedescendant={choices.length > 0 ? `completion-${chosen.value}` : undefined}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          value={line.value}
          onInput={(event) => {
            shows.value = true;
            put(event.currentTarget.value);
          }}
          onKeyDown={pressed}
        />
      </label>
    </div>
  );
}
