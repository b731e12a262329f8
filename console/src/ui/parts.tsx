// Small parts that several pages are made of.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { LostError } from '../api/socket';
import { mayWrite, unlock } from '../state';
import { say } from './toast';

/** A page's heading with what can be done there. */
export function PageHead(props: {
  title: string;
  note?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <header class="page-head">
      <h1>{props.title}</h1>
      {props.note !== undefined && <p class="note">{props.note}</p>}
      <div class="actions">{props.children}</div>
    </header>
  );
}

export function Panel(props: {
  title?: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}) {
  return (
    <section class={`panel ${props.class ?? ''}`}>
      {props.title && (
        <header>
          <h2>{props.title}</h2>
          {props.note !== undefined && <span class="note">{props.note}</span>}
          {props.actions && <div class="actions">{props.actions}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

/** One figure with its name. */
export function Tile(props: { name: string; value: string; note?: string; warn?: boolean }) {
  return (
    <div class={`tile ${props.warn ? 'warn' : ''}`}>
      <span class="name">{props.name}</span>
      <strong>{props.value}</strong>
      {props.note !== undefined && <span class="note">{props.note}</span>}
    </div>
  );
}

/** A button whose act changes something: while reading only, it asks to unlock first. */
export function WriteButton({
  onClick,
  title,
  class: style,
  ...rest
}: {
  onClick: () => void;
  title?: string;
  class?: string;
  disabled?: boolean;
  'aria-label'?: string;
  children: ComponentChildren;
}) {
  const locked = !mayWrite.value;
  return (
    <button
      type="button"
      {...rest}
      class={`${style ?? ''} ${locked ? 'locked' : ''}`}
      title={locked ? 'Read-only: unlock first' : title}
      onClick={async (event) => {
        event.stopPropagation();
        if (mayWrite.value || (await unlock())) onClick();
      }}
    />
  );
}

export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button
          key={value}
          type="button"
          aria-pressed={props.value === value}
          class={props.value === value ? 'chosen' : ''}
          onClick={() => props.onChange(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

/** A field to search in, which `/` goes to. */
export function Search(props: {
  label: string;
  value: string;
  onInput: (text: string) => void;
  onEnter?: () => void;
}) {
  return (
    <input
      type="search"
      data-search
      aria-label={props.label}
      placeholder={props.label}
      autocomplete="off"
      spellcheck={false}
      value={props.value}
      onInput={(event) => props.onInput(event.currentTarget.value)}
      onKeyDown={(event) => event.key === 'Enter' && props.onEnter?.()}
    />
  );
}

export const TypeBadge = (props: { type: string }) => (
  <span class={`badge type-${props.type}`}>{props.type || '…'}</span>
);

export function Bar(props: { share: number; label: string; warn?: boolean }) {
  const percent = Math.max(0, Math.min(100, Math.round(props.share * 100))) || 0;
  return (
    <div
      class={`bar ${props.warn ? 'warn' : ''}`}
      role="meter"
      aria-label={props.label}
      aria-valuenow={percent}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <span style={{ width: `${percent}%` }} />
    </div>
  );
}

export const Empty = (props: { children: ComponentChildren }) => (
  <p class="empty">{props.children}</p>
);

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say('Copied.');
  } catch {
    // Without TLS browsers keep the clipboard from pages; an old way remains.
    const field = document.createElement('textarea');
    field.value = text;
    (document.querySelector('dialog[open]') ?? document.body).append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    say(done ? 'Copied.' : 'The browser does not let this page copy.', done ? 'good' : 'bad');
  }
}

/** Reads at once, and again each so many milliseconds while the page is seen; trouble is told once. */
export function useRefresh(
  read: () => Promise<void>,
  everyMs: number,
  on: unknown[] = [],
): () => void {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let ended = false;
    let told = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const step = async () => {
      if (!document.hidden) {
        try {
          await read();
        } catch (error) {
          if (!told && !(error instanceof LostError)) say((error as Error).message, 'bad');
          told = true;
        }
      }
      if (!ended && everyMs > 0) timer = setTimeout(step, everyMs);
    };
    void step();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [turn, everyMs, ...on]);
  return () => setTurn((now) => now + 1);
}
