// The rows of the key tree that are in sight, moved through by arrow keys. The types of the keys in
// sight are asked for in one go.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { short } from '../../api/format';
import { asText, errorOf, type Word } from '../../api/reply';
import { database, socket } from '../../state';
import { Empty, TypeBadge } from '../../ui/parts';
import { useWindow } from '../../ui/table';
import type { Row } from './tree';

export const KEY_ROW_PX = 26;
const INDENT_PX = 16;

export function KeyRows(props: {
  rows: Row[];
  /** What is said when there are no rows. */
  empty: string;
  chosen: string;
  onTurn: (prefix: string, open: boolean) => void;
  onChoose: (key: Word) => void;
  onOnly: (prefix: string) => void;
}) {
  const { rows } = props;
  const { box, first, last } = useWindow(rows.length, KEY_ROW_PX);
  const at = useSignal(0);
  const types = useTypes(rows, first, last);
  const active = Math.min(at.value, rows.length - 1);
  const moveTo = (index: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    at.value = next;
    const element = box.current;
    if (!element) return;
    const top = next * KEY_ROW_PX;
    if (top < element.scrollTop) element.scrollTop = top;
    const bottom = top + KEY_ROW_PX - element.clientHeight;
    if (bottom > element.scrollTop) element.scrollTop = bottom;
  };
  const activate = (row: Row) =>
    row.kind === 'folder' ? props.onTurn(row.folder.prefix, !row.open) : props.onChoose(row.key);
  const pressed = (event: KeyboardEvent) => {
    const move = moveOf(event.key, rows, active, box.current?.clientHeight ?? 0);
    const row = rows[active];
    if (move !== undefined) moveTo(move);
    else if (event.key === 'Enter' && row) activate(row);
    else if (event.key === 'o' && row?.kind === 'folder') props.onOnly(row.folder.prefix);
    else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
      if (row?.kind === 'folder' && row.open === (event.key === 'ArrowLeft')) activate(row);
      else if (event.key === 'ArrowLeft') moveTo(parentOf(rows, active));
      else moveTo(active + 1);
    } else return;
    event.preventDefault();
  };
  return (
    <div
      class="tree"
      role={rows.length > 0 ? 'tree' : undefined}
      aria-label={rows.length > 0 ? 'Keys' : undefined}
      tabIndex={0}
      ref={box}
      onKeyDown={pressed}
      aria-activedescendant={rows[active] ? `row-${active}` : undefined}
    >
      <div role="presentation" style={{ height: `${first * KEY_ROW_PX}px` }} />
      {rows.slice(first, last).map((row, index) => (
        <TreeRow
          key={row.id}
          row={row}
          index={first + index}
          active={first + index === active}
          chosen={row.id === props.chosen}
          type={types.get(row.id) ?? ''}
          onClick={() => {
            at.value = first + index;
            activate(row);
          }}
          onOnly={props.onOnly}
        />
      ))}
      <div role="presentation" style={{ height: `${(rows.length - last) * KEY_ROW_PX}px` }} />
      {rows.length === 0 && <Empty>{props.empty}</Empty>}
    </div>
  );
}

function TreeRow(props: {
  row: Row;
  index: number;
  active: boolean;
  chosen: boolean;
  type: string;
  onClick: () => void;
  onOnly: (prefix: string) => void;
}) {
  const { row } = props;
  const style = { paddingLeft: `${8 + row.depth * INDENT_PX}px` };
  const names = `row ${props.active ? 'active' : ''} ${props.chosen ? 'chosen' : ''}`;
  return (
    <div
      id={`row-${props.index}`}
      class={`${names} ${row.kind}`}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-expanded={row.kind === 'folder' ? row.open : undefined}
      aria-selected={props.chosen}
      style={style}
      onClick={props.onClick}
    >
      {row.kind === 'folder' ? (
        <>
          <span class="turn" aria-hidden="true">
            {row.open ? '▾' : '▸'}
          </span>
          <span class="label">{row.folder.prefix.slice(-row.folder.name.length - 1)}</span>
          <span
            class="only"
            aria-hidden="true"
            title={`Look for ${row.folder.prefix}* among all keys`}
            onClick={(event) => {
              event.stopPropagation();
              props.onOnly(row.folder.prefix);
            }}
          >
            only
          </span>
          <span class="count">{short(row.folder.count)}</span>
        </>
      ) : (
        <>
          <TypeBadge type={props.type} />
          <span class="label" title={asText(row.key)}>
            {row.label}
          </span>
        </>
      )}
    </div>
  );
}

/** Where a key of the keyboard leads; nothing when it does not move. */
function moveOf(key: string, rows: Row[], at: number, height: number): number | undefined {
  const page = Math.max(1, Math.floor(height / KEY_ROW_PX) - 1);
  switch (key) {
    case 'ArrowDown':
      return at + 1;
    case 'ArrowUp':
      return at - 1;
    case 'PageDown':
      return at + page;
    case 'PageUp':
      return at - page;
    case 'Home':
      return 0;
    case 'End':
      return rows.length - 1;
    default:
      return undefined;
  }
}

function parentOf(rows: Row[], at: number): number {
  const depth = rows[at]?.depth ?? 0;
  for (let index = at - 1; index >= 0; index -= 1) {
    if ((rows[index]?.depth ?? 0) < depth) return index;
  }
  return at;
}

/** Types by id of the row, asked for when a row comes into sight. */
function useTypes(rows: Row[], first: number, last: number): ReadonlyMap<string, string> {
  const known = useRef(new Map<string, string>());
  const redraw = useSignal(0);
  const db = database.value;
  useEffect(() => known.current.clear(), [db]);
  useEffect(() => {
    const unknown = rows
      .slice(first, last)
      .filter((row) => row.kind === 'key' && !known.current.has(row.id));
    if (unknown.length === 0) return;
    for (const row of unknown) known.current.set(row.id, '');
    const asked = unknown.map((row) => ['TYPE', (row as { key: Word }).key]);
    socket.askAll(asked, db).then(
      (replies) => {
        replies.forEach((reply, index) => {
          const id = unknown[index]?.id ?? '';
          if (errorOf(reply) === undefined) known.current.set(id, asText(reply));
        });
        redraw.value += 1;
      },
      () => {
        for (const row of unknown) known.current.delete(row.id);
      },
    );
  }, [rows, first, last, db]);
  // Reading it draws again when types have come.
  return redraw.value >= 0 ? known.current : new Map();
}
