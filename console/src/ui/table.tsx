// A table that stays quick with very many rows: only those in sight exist. Columns sort; a row can
// be opened with a click or with Enter.
//
// Every row has the same height, ROW_PX, which styles/parts.css says too.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

export const ROW_PX = 30;
/** Rows beyond what is seen, so that scrolling shows no gaps. */
const SPARE_ROWS = 10;

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  /** What the column is sorted by. */
  by?: (row: Row) => number | string;
  number?: boolean;
  /** In pixels; in a short table also in percent. */
  width?: string;
  /** Its name is heard, not seen. */
  silent?: boolean;
}

export function Table<Row>(props: {
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  rowId: (row: Row) => string | number;
  onOpen?: (row: Row) => void;
  chosen?: string | number;
  sorted?: { column: string; down: boolean };
  empty?: string;
}) {
  const [order, setOrder] = useState(props.sorted);
  const rows = useMemo(() => sortedRows(props.rows, props.columns, order), [props.rows, order]);
  const { box, first, last } = useWindow(rows.length);
  return (
    <div class="table-box" ref={box} tabIndex={0} role="region" aria-label={props.label}>
      <table style={{ minWidth: `max(100%, ${leastWidthOf(props.columns)}px)` }}>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <Heading key={column.name} column={column} order={order} setOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" style={{ height: `${first * ROW_PX}px` }} />}
          {rows.slice(first, last).map((row) => {
            const id = props.rowId(row);
            return (
              <tr
                key={id}
                class={`${props.onOpen ? 'opens' : ''} ${props.chosen === id ? 'chosen' : ''}`}
                tabIndex={props.onOpen ? 0 : undefined}
                onClick={() => props.onOpen?.(row)}
                onKeyDown={(event) => {
                  if (event.key === 'Enter' && event.target === event.currentTarget)
                    props.onOpen?.(row);
                }}
              >
                {props.columns.map((column) => (
                  <td key={column.name} class={column.number ? 'number' : ''}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {last < rows.length && (
            <tr aria-hidden="true" style={{ height: `${(rows.length - last) * ROW_PX}px` }} />
          )}
        </tbody>
      </table>
      {rows.length === 0 && <p class="empty">{props.empty ?? 'Nothing here.'}</p>}
    </div>
  );
}

/** A short table: all of its rows exist, in the order in which they are given. */
export function PlainTable<Row>(props: {
  rows: Row[];
  columns: Column<Row>[];
  rowId: (row: Row) => string | number;
}) {
  return (
    <table class="plain">
      <thead>
        <tr>
          {props.columns.map(({ name, number, width }) => (
            <th key={name} scope="col" style={{ width }} class={number ? 'number' : ''}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {props.rows.map((row) => (
          <tr key={props.rowId(row)}>
            {props.columns.map(({ name, number, cell }) => (
              <td key={name} class={number ? 'number' : ''}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A column without a width gets what is left, but never less than this. */
const LEAST_COLUMN_PX = 130;

const leastWidthOf = <Row,>(columns: Column<Row>[]): number =>
  columns.reduce(
    (sum, { width }) => sum + (width ? Number.parseInt(width, 10) : LEAST_COLUMN_PX),
    0,
  );

type Order = { column: string; down: boolean } | undefined;

function Heading<Row>(props: {
  column: Column<Row>;
  order: Order;
  setOrder: (order: Order) => void;
}) {
  const { column, order } = props;
  const style = { width: column.width };
  const isSorted = order?.column === column.name;
  const direction = isSorted ? (order.down ? 'descending' : 'ascending') : undefined;
  const turn = () =>
    props.setOrder({ column: column.name, down: isSorted ? !order.down : column.number === true });
  return (
    <th scope="col" style={style} class={column.number ? 'number' : ''} aria-sort={direction}>
      {column.by ? (
        <button type="button" class="quiet" onClick={turn}>
          {column.name}
          <span aria-hidden="true">{isSorted ? (order.down ? ' ↓' : ' ↑') : ''}</span>
        </button>
      ) : (
        <span class={column.silent ? 'heard' : ''}>{column.name}</span>
      )}
    </th>
  );
}

function sortedRows<Row>(rows: Row[], columns: Column<Row>[], order: Order): Row[] {
  const by = columns.find((column) => column.name === order?.column)?.by;
  if (!by || !order) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    return x < y ? -sign : x > y ? sign : 0;
  });
}

/** Which rows of so many are in sight of the box. */
export function useWindow(count: number, rowPx = ROW_PX) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 900 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);
  useEffect(() => {
    const element = box.current;
    if (element && element.scrollTop > count * rowPx) element.scrollTop = 0;
  }, [count]);
  const first = Math.max(0, Math.floor(view.top / rowPx) - SPARE_ROWS);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowPx) + SPARE_ROWS);
  return { box, first: Math.min(first, count), last };
}
