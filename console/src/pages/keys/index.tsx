// The keys: found by SCAN within a budget, shown as a tree of prefixes, one of them open beside it.

import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { count } from '../../api/format';
import { asNumber, asText, type Word, wordId, wordOfId } from '../../api/reply';
import { literal, nameOf, patternOf, Scan } from '../../api/scan';
import { go, replace, route } from '../../router';
import { database, figures, read, run } from '../../state';
import { Choice, Empty, PageHead, Search, WriteButton } from '../../ui/parts';
import { attempt } from '../../ui/toast';
import { BulkDelete } from './bulk_delete';
import { Detail } from './detail';
import { NewKey } from './new_key';
import { isAt, type Place, placeOf } from './place';
import { KeyRows } from './rows';
import { rowOf, rowsOf, treeOf } from './tree';

const FIRST_BUDGET = { keys: 5_000, ms: 1_500 };
/** What is rare is looked for until it is found, or for a while. */
const SEARCH_BUDGET = { keys: 5_000, ms: 60_000 };
const MORE_BUDGET = { keys: 20_000, ms: 10_000 };
/** When a walk has found no more, all prefixes are open. */
const FEW_KEYS = 20;
/** More rows than anybody reads, and than a browser holds with ease. */
const MAX_KEYS = 200_000;
/** The list is drawn again at most so often while a walk goes on; a long one, which takes long to
 * put in order, less often. */
const redrawMs = (keys: number) => Math.max(250, keys / 100);

const TYPES = ['', 'string', 'hash', 'list', 'set', 'zset', 'stream'];
const SHAPES = [
  [':', 'Tree'],
  ['', 'List'],
] as const;

export function Keys() {
  const params = route.value.params;
  // The address decides, also while the shared database has not followed it yet.
  const { db, find } = placeOf(params, database.value);
  const typed = useSignal(find);
  const type = useSignal('');
  const separator = useSignal<(typeof SHAPES)[number][0]>(':');
  const turned = useSignal<Turned>(new Map());
  const dialog = useSignal<'' | 'new' | 'delete'>('');
  const { scan, found, named, total, busy, sought, begin, more } = useKeyScan(typed, type);
  const rows = useRows({ found, named, busy }, separator, turned);
  const chosen = params.get('key');
  /** The address of the list, with what it was begun for: the field may hold another text. */
  const listed = () => ({ db: String(db), find: sought.current.find });
  const choose = (key: Word) => go('keys', { ...listed(), key: wordId(key) });
  const onlyPrefix = (prefix: string) => {
    typed.value = `${literal(prefix)}*`;
    begin();
  };
  return (
    <>
      <PageHead title="Keys">
        <DatabaseChoice onChange={begin} />
        <Search
          label="Find keys: text or a pattern as user:*"
          value={typed.value}
          onInput={(text) => (typed.value = text)}
          onEnter={begin}
        />
        <select
          aria-label="Type of keys"
          value={type.value}
          onChange={(event) => {
            type.value = event.currentTarget.value;
            begin();
          }}
        >
          {TYPES.map((name) => (
            <option key={name} value={name}>
              {name || 'all types'}
            </option>
          ))}
        </select>
        <Choice
          label="Shape"
          value={separator.value}
          options={SHAPES}
          onChange={(now) => (separator.value = now)}
        />
        <WriteButton onClick={() => (dialog.value = 'new')}>New key</WriteButton>
        <WriteButton class="danger" onClick={() => (dialog.value = 'delete')}>
          Delete many
        </WriteButton>
      </PageHead>
      <div class={`keys ${chosen ? 'with-detail' : ''}`}>
        <div class="key-list panel">
          <Progress scan={scan.value} total={total.value} busy={busy.value} onMore={more} />
          <KeyRows
            rows={rows.value}
            empty={total.value === 0 ? 'This database has no keys.' : 'No key matches.'}
            chosen={chosen ?? ''}
            onTurn={(prefix, open) => (turned.value = new Map(turned.value).set(prefix, open))}
            onChoose={choose}
            onOnly={onlyPrefix}
          />
        </div>
        {chosen ? (
          <Detail
            key={`${db} ${chosen}`}
            name={wordOfId(chosen)}
            db={db}
            onClose={() => go('keys', listed())}
            onRenamed={choose}
            onGone={() => {
              go('keys', listed());
              begin();
            }}
          />
        ) : (
          <div class="panel placeholder">
            <Empty>Choose a key to see its value.</Empty>
          </div>
        )}
      </div>
      {dialog.value === 'new' && (
        <NewKey
          db={db}
          onClose={() => (dialog.value = '')}
          onMade={(key, made) => {
            dialog.value = '';
            database.value = made;
            begin();
            go('keys', { db: String(made), find: typed.value, key: wordId(key) });
          }}
        />
      )}
      {dialog.value === 'delete' && (
        <BulkDelete
          db={db}
          pattern={patternOf(typed.value)}
          type={type.value}
          onClose={() => {
            dialog.value = '';
            begin();
          }}
        />
      )}
    </>
  );
}

/** The prefixes that somebody has opened or closed. */
type Turned = ReadonlyMap<string, boolean>;
type TextSignal = { value: string };

/** The walk through the keys that match, and what begins it and goes on with it. */
function useKeyScan(typed: TextSignal, type: TextSignal) {
  const scan = useSignal<Scan | undefined>(undefined);
  const found = useSignal<Word[]>([]);
  const named = useSignal<Word | undefined>(undefined);
  const total = useSignal(Number.NaN);
  const busy = useSignal(false);
  const drawnAt = useRef(0);
  /** What the list was begun for. */
  const sought = useRef<Place>({ db: -1, find: '' });
  const step = async (walk: Scan, budget: typeof FIRST_BUDGET) => {
    busy.value = true;
    await attempt(() =>
      walk.step(budget, () => {
        if (walk.keys.length >= MAX_KEYS) walk.stop();
        const now = performance.now();
        if (scan.value !== walk || now - drawnAt.current < redrawMs(walk.keys.length)) return;
        drawnAt.current = now;
        found.value = [...walk.keys];
      }),
    );
    if (scan.value !== walk) return;
    found.value = [...walk.keys];
    busy.value = false;
  };
  /** The key with exactly this name is there at once, wherever the walk would meet it. */
  const findByName = async (walk: Scan) => {
    const name = nameOf(typed.value);
    if (name === undefined) return;
    const kind = await run(['TYPE', name], walk.scope.db).then(asText, () => 'none');
    const isWanted = walk.scope.type === '' || walk.scope.type === kind;
    if (kind === 'none' || !isWanted || scan.value !== walk) return;
    walk.add([name]);
    named.value = name;
    found.value = [...walk.keys];
  };
  const begin = () => {
    scan.value?.stop();
    const walk = new Scan(read, {
      db: database.value,
      pattern: patternOf(typed.value),
      type: type.value,
    });
    scan.value = walk;
    named.value = undefined;
    if (sought.current.db !== database.value) found.value = [];
    sought.current = { db: database.value, find: typed.value };
    const params = Object.fromEntries(route.value.params);
    replace('keys', { ...params, db: String(database.value), find: typed.value });
    void run(['DBSIZE'], database.value).then(
      (size) => (total.value = asNumber(size)),
      () => {},
    );
    void findByName(walk);
    void step(walk, walk.scope.pattern || walk.scope.type ? SEARCH_BUDGET : FIRST_BUDGET);
  };
  const more = () => {
    const walk = scan.value;
    if (!walk) return;
    if (busy.value) walk.stop();
    else if (walk.keys.length < MAX_KEYS) void step(walk, MORE_BUDGET);
  };
  const { page, params } = route.value;
  // Back, a link or an edited address may name another place: the list follows.
  useLayoutEffect(() => {
    if (page !== 'keys' || isAt(params, sought.current)) return;
    const place = placeOf(params, database.value);
    database.value = place.db;
    typed.value = place.find;
    begin();
  }, [page, params.get('db'), params.get('find')]);
  useEffect(() => () => scan.value?.stop(), []);
  return { scan, found, named, total, busy, sought, begin, more };
}

/** What was found; the key that has the very name that was typed stands before all prefixes. */
interface FoundKeys {
  found: { value: Word[] };
  named: { value: Word | undefined };
  busy: { value: boolean };
}

function useRows(
  { found, named, busy }: FoundKeys,
  separator: TextSignal,
  turned: { value: Turned },
) {
  const tree = useComputed(() => {
    const first = named.value;
    const others = first === undefined ? found.value : found.value.filter((key) => key !== first);
    return treeOf(others, separator.value);
  });
  return useComputed(() => {
    const isFew = !busy.value && found.value.length <= FEW_KEYS;
    const now = turned.value;
    const rows = rowsOf(tree.value, (prefix) => now.get(prefix) ?? isFew);
    return named.value === undefined ? rows : [rowOf(named.value), ...rows];
  });
}

function DatabaseChoice(props: { onChange: () => void }) {
  const known = figures.value?.memory?.byDb ?? [];
  const options = useMemo(
    () => [...new Set([0, database.value, ...known.map((db) => db.db)])].sort((a, b) => a - b),
    [known.length, database.value],
  );
  return (
    <select
      aria-label="Database"
      value={String(database.value)}
      onChange={(event) => {
        database.value = Number(event.currentTarget.value);
        go('keys', { db: event.currentTarget.value });
        props.onChange();
      }}
    >
      {options.map((db) => (
        <option key={db} value={String(db)}>
          db {db}
        </option>
      ))}
    </select>
  );
}

function Progress(props: {
  scan: Scan | undefined;
  total: number;
  busy: boolean;
  onMore: () => void;
}) {
  const { scan, total } = props;
  if (!scan) return null;
  const found = scan.keys.length;
  const looked = Math.min(Math.max(scan.looked, found), total);
  return (
    <div class="progress" role="status">
      <span>
        <b>{count(found)}</b> {found === 1 ? 'key' : 'keys'} {!scan.done && 'so far'}
        {!scan.done && Number.isFinite(total) && ` · looked at ${count(looked)} of ${count(total)}`}
      </span>
      {found >= MAX_KEYS && <span class="note">too many to show: narrow the search</span>}
      {!scan.done && found < MAX_KEYS && (
        <button type="button" class="small" onClick={props.onMore}>
          {props.busy ? 'Stop' : 'Look further'}
        </button>
      )}
    </div>
  );
}
