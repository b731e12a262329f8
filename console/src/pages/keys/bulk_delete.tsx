// Deletes the keys that match a pattern: counts them first, asks, then frees them in the background
// of the server by UNLINK, in batches, and can be stopped at any time. Keys that were counted are
// deleted as they were counted; of very many only the pattern is kept, and they are looked for again.

import { useSignal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { count } from '../../api/format';
import { asNumber, asText, orThrow, type Word } from '../../api/reply';
import { Scan } from '../../api/scan';
import { run, socket } from '../../state';
import { Dialog } from '../../ui/dialog';
import { Bar } from '../../ui/parts';
import { say } from '../../ui/toast';

const BATCH_KEYS = 500;
/** Batches that are under way together. */
const BATCHES = 4;
const MAX_KEPT = 200_000;
const EXAMPLES = 5;
/** The walk goes on in steps, between which a stop is seen. */
const STEP = { keys: Number.POSITIVE_INFINITY, ms: 500 };

type Phase = 'asked' | 'counting' | 'counted' | 'deleting' | 'done';

export function BulkDelete(props: {
  db: number;
  pattern: string;
  type: string;
  onClose: () => void;
}) {
  // Where it was opened, whatever the address names meanwhile.
  const [db] = useState(props.db);
  const pattern = useSignal(props.pattern);
  const phase = useSignal<Phase>('asked');
  const found = useSignal(0);
  const looked = useSignal(0);
  const total = useSignal(Number.NaN);
  const deleted = useSignal(0);
  const examples = useSignal<Word[]>([]);
  const typed = useSignal('');
  const kept = useRef<Word[] | undefined>(undefined);
  const walk = useRef<Scan | undefined>(undefined);
  const ended = useRef(false);
  useEffect(
    () => () => {
      ended.current = true;
      walk.current?.stop();
    },
    [],
  );
  const go = async (act: (keys: Word[]) => Promise<void>, then: Phase) => {
    const scope = { db, pattern: pattern.value, type: props.type };
    const scan = new Scan(run, scope, false);
    walk.current = scan;
    try {
      total.value = asNumber(await run(['DBSIZE'], scope.db));
      while (!scan.done && walk.current === scan && !ended.current) {
        await scan.step(STEP, async (keys) => {
          looked.value = scan.looked;
          await act(keys);
        });
      }
      if (walk.current === scan) phase.value = then;
    } catch (error) {
      say((error as Error).message, 'bad');
      phase.value = 'asked';
    }
  };
  const countKeys = () => {
    phase.value = 'counting';
    found.value = 0;
    examples.value = [];
    kept.current = [];
    void go(async (keys) => {
      found.value += keys.length;
      if (found.value > MAX_KEPT) kept.current = undefined;
      kept.current?.push(...keys);
      if (examples.value.length < EXAMPLES) {
        examples.value = [...examples.value, ...keys].slice(0, EXAMPLES);
      }
    }, 'counted');
  };
  const unlink = async (keys: Word[], goesOn: () => boolean) => {
    const size = BATCH_KEYS * BATCHES;
    for (let at = 0; at < keys.length && goesOn(); at += size) {
      const commands: Word[][] = [];
      for (let from = at; from < Math.min(at + size, keys.length); from += BATCH_KEYS) {
        commands.push(['UNLINK', ...keys.slice(from, Math.min(from + BATCH_KEYS, at + size))]);
      }
      const replies = await socket.askAll(commands, db);
      for (const reply of replies) deleted.value += asNumber(orThrow(reply));
    }
  };
  const deleteKeys = () => {
    phase.value = 'deleting';
    deleted.value = 0;
    const keys = kept.current;
    const goesOn = () => phase.value === 'deleting' && !ended.current;
    if (!keys) {
      void go((some) => unlink(some, goesOn), 'done');
      return;
    }
    unlink(keys, goesOn)
      .catch((error: Error) => say(error.message, 'bad'))
      .finally(() => {
        phase.value = 'done';
      });
  };
  const stop = () => {
    const scan = walk.current;
    walk.current = undefined;
    scan?.stop();
    phase.value = phase.value === 'deleting' ? 'done' : 'asked';
  };
  const isWalk = phase.value === 'counting' || kept.current === undefined;
  const share = isWalk
    ? Math.min(1, looked.value / (total.value || 1))
    : deleted.value / (found.value || 1);
  const isRunning = phase.value === 'counting' || phase.value === 'deleting';
  return (
    <Dialog title="Delete many keys" onClose={props.onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (phase.value === 'asked') countKeys();
        }}
      >
        <label>
          <span>
            Pattern{' '}
            <em>
              in database {db}
              {props.type && `, type ${props.type}`}; empty: all keys
            </em>
          </span>
          <input
            value={pattern.value}
            disabled={isRunning}
            spellcheck={false}
            onInput={(event) => {
              pattern.value = event.currentTarget.value;
              phase.value = 'asked';
            }}
          />
        </label>
        {isRunning && <Bar share={share} label={isWalk ? 'Looked at' : 'Deleted'} />}
        {phase.value === 'counting' && (
          <p class="note">
            {count(found.value)} keys match so far; looked at{' '}
            {count(Math.min(looked.value, total.value))} of {count(total.value)}.
          </p>
        )}
        {phase.value === 'counted' && (
          <>
            <p>
              <b>{count(found.value)} keys</b> match{found.value > EXAMPLES ? ', among them' : ''}:
            </p>
            <ul class="examples">
              {examples.value.map((key, index) => (
                <li key={index}>
                  <code>{asText(key)}</code>
                </li>
              ))}
            </ul>
            {found.value > 0 && (
              <label>
                <span>
                  Type <code>{found.value}</code> to confirm
                </span>
                <input
                  value={typed.value}
                  inputMode="numeric"
                  onInput={(event) => (typed.value = event.currentTarget.value)}
                />
              </label>
            )}
          </>
        )}
        {phase.value === 'deleting' && (
          <p role="status">
            {count(deleted.value)} of {isWalk && 'about '}
            {count(found.value)} deleted.
          </p>
        )}
        {phase.value === 'done' && <p role="status">{count(deleted.value)} keys were deleted.</p>}
        <footer>
          {isRunning ? (
            <button type="button" onClick={stop}>
              Stop
            </button>
          ) : (
            <button type="button" onClick={props.onClose}>
              {phase.value === 'done' ? 'Close' : 'Cancel'}
            </button>
          )}
          {phase.value === 'asked' && (
            <button type="submit" class="primary">
              Count
            </button>
          )}
          {phase.value === 'counted' && (
            <button
              type="button"
              class="danger"
              disabled={found.value === 0 || typed.value !== String(found.value)}
              onClick={deleteKeys}
            >
              Delete
            </button>
          )}
        </footer>
      </form>
    </Dialog>
  );
}
