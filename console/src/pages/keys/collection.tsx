// The elements of a list, hash, set or sorted set: some pages of them, never all.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { duration } from '../../api/format';
import { asArray, asNumber, asText, errorOf, type Word } from '../../api/reply';
import { typed } from '../../api/words';
import { run, socket } from '../../state';
import { ask, Dialog } from '../../ui/dialog';
import { FormDialog } from '../../ui/form';
import { copy, Search, WriteButton } from '../../ui/parts';
import { type Column, Table } from '../../ui/table';
import { attempt, say } from '../../ui/toast';
import { type Element, type Kind, PAGE } from './kinds';

interface Props {
  name: Word;
  db: number;
  kind: Kind;
  type: string;
  length: number;
  refreshes: number;
  onChanged: () => void;
}

export function Collection(props: Props) {
  const { kind, name, db } = props;
  const pattern = useSignal('');
  const { elements, next, more, again } = usePages(props, pattern);
  const dialog = useSignal<'add' | Element | undefined>(undefined);
  const deadlines = useDeadlines(props, elements.value);
  const change = async (words: Word[], done: string) => {
    if (await attempt(() => run(words, db), done)) {
      again();
      props.onChanged();
    }
  };
  const remove = async (element: Element) => {
    const sure = await ask({
      title: `Remove this element in database ${db}?`,
      text: <code>{element.cells.map(typed).join(' ')}</code>,
      yes: 'Remove',
      danger: true,
    });
    if (sure) await change(kind.removing(name, element), 'Removed.');
  };
  const columns = columnsOf(kind, deadlines, (element) => void remove(element));
  return (
    <>
      <div class="view-bar">
        {kind.filtered && (
          <Search
            label="Filter: a pattern as a*"
            value={pattern.value}
            onInput={(text) => (pattern.value = text)}
            onEnter={again}
          />
        )}
        <span class="note">
          {elements.value.length} shown{next.value === undefined ? '' : ` of ${props.length}`}
        </span>
        {next.value !== undefined && (
          <button type="button" class="small" onClick={() => void more()}>
            {PAGE} more
          </button>
        )}
        <span class="space" />
        <WriteButton class="small" onClick={() => (dialog.value = 'add')}>
          Add
        </WriteButton>
      </div>
      <Table
        label="Elements"
        rows={elements.value}
        columns={columns}
        rowId={(element) => element.id}
        onOpen={(element) => (dialog.value = element)}
        empty="No element matches."
      />
      {dialog.value === 'add' && (
        <FormDialog
          title={`Add to the ${props.type}`}
          fields={kind.adding.fields.map((field) => ({ name: field, long: field === 'Value' }))}
          save="Add"
          onSave={async (values) => {
            await run(
              kind.adding.command(
                name,
                kind.adding.fields.map((one) => values[one] ?? ''),
              ),
              db,
            );
            say('Added.');
            again();
            props.onChanged();
          }}
          onClose={() => (dialog.value = undefined)}
        />
      )}
      {dialog.value !== undefined && dialog.value !== 'add' && (
        <ElementDialog
          kind={kind}
          element={dialog.value}
          onClose={() => (dialog.value = undefined)}
          onSave={async (element, value) => {
            if (kind.changing) await run(kind.changing.command(name, element, value), db);
            again();
            props.onChanged();
          }}
        />
      )}
    </>
  );
}

/** A score may have seventeen digits. */
const NUMBER_WIDTHS: Record<string, string> = { Score: '180px', Index: '110px' };

function columnsOf(
  kind: Kind,
  deadlines: ReadonlyMap<string, number>,
  remove: (element: Element) => void,
): Column<Element>[] {
  const columns: Column<Element>[] = kind.columns.map((title, index) => {
    const isNumber = title in NUMBER_WIDTHS;
    return {
      name: title,
      cell: (element) => <code>{shownText(element.cells[index])}</code>,
      by: (element) =>
        isNumber ? Number(asText(element.cells[index])) : asText(element.cells[index]),
      number: isNumber,
      width: isNumber ? NUMBER_WIDTHS[title] : undefined,
    };
  });
  if (deadlines.size > 0) {
    columns.push({
      name: 'TTL',
      cell: (element) => ttlText(deadlines.get(element.id)),
      by: (element) => deadlines.get(element.id) ?? Number.POSITIVE_INFINITY,
      number: true,
      width: '110px',
    });
  }
  columns.push({
    name: 'Remove',
    silent: true,
    width: '44px',
    cell: (element) => (
      <WriteButton class="quiet small" aria-label="Remove" onClick={() => remove(element)}>
        ×
      </WriteButton>
    ),
  });
  return columns;
}

const ttlText = (ms: number | undefined) => (ms === undefined ? '' : duration(ms / 1000));

/** A row shows the beginning of what is long. */
const SHOWN_LETTERS = 300;
const shownText = (word: Word | undefined) => {
  const text = asText(word);
  return text.length > SHOWN_LETTERS ? `${text.slice(0, SHOWN_LETTERS)}…` : text;
};

function ElementDialog(props: {
  kind: Kind;
  element: Element;
  onSave: (element: Element, value: string) => Promise<void>;
  onClose: () => void;
}) {
  const { kind, element } = props;
  const editing = useSignal(false);
  const cell = kind.changing?.cell ?? -1;
  const value = element.cells[cell];
  if (editing.value && typeof value === 'string') {
    return (
      <FormDialog
        title={`Change ${kind.columns[cell]?.toLowerCase()}`}
        fields={[{ name: kind.columns[cell] ?? '', value, long: kind.columns[cell] !== 'Score' }]}
        save="Save"
        onSave={(values) => props.onSave(element, values[kind.columns[cell] ?? ''] ?? '')}
        onClose={props.onClose}
      />
    );
  }
  return (
    <Dialog title="Element" onClose={props.onClose} wide>
      {kind.columns.map((title, index) => (
        <section key={title} class="cell">
          <h3>{title}</h3>
          <pre class="value">{asText(element.cells[index])}</pre>
          <button
            type="button"
            class="small"
            onClick={() => void copy(asText(element.cells[index]))}
          >
            Copy {title.toLowerCase()}
          </button>
        </section>
      ))}
      <footer>
        {typeof value === 'string' && (
          <WriteButton class="primary" onClick={() => (editing.value = true)}>
            Change {kind.columns[cell]?.toLowerCase()}
          </WriteButton>
        )}
      </footer>
    </Dialog>
  );
}

/** The pages that were read, and how to read on or anew. */
function usePages(props: Props, pattern: { value: string }) {
  const elements = useSignal<Element[]>([]);
  const next = useSignal<string | undefined>(undefined);
  const read = async (from: string | undefined) => {
    const reply = await run(props.kind.read(props.name, from, pattern.value.trim()), props.db);
    const page = props.kind.page(reply, from);
    const before = from === undefined ? [] : elements.value;
    const seen = new Set(before.map((element) => element.id));
    elements.value = [...before, ...page.elements.filter((element) => !seen.has(element.id))];
    next.value = page.next;
  };
  const again = () => void attempt(() => read(undefined));
  useEffect(again, [props.kind, props.db, props.refreshes]);
  return { elements, next, again, more: () => attempt(() => read(next.value)) };
}

/** Milliseconds left of the fields of a hash that expire. */
function useDeadlines(props: Props, elements: Element[]): ReadonlyMap<string, number> {
  const deadlines = useSignal<ReadonlyMap<string, number>>(new Map());
  useEffect(() => {
    if (props.type !== 'hash' || elements.length === 0) return;
    const fields = elements.map((element) => element.cells[0] ?? '');
    const words: Word[] = ['HPTTL', props.name, 'FIELDS', String(fields.length), ...fields];
    socket.ask(words, props.db).then(
      (reply) => {
        if (errorOf(reply) !== undefined) return;
        const left = asArray(reply).map(asNumber);
        const some = elements.map((element, index) => [element.id, left[index] ?? -1] as const);
        deadlines.value = new Map(some.filter(([, ms]) => ms >= 0));
      },
      () => {},
    );
  }, [elements]);
  return deadlines.value;
}
