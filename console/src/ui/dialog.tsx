// Dialogs over the page. The browser's own <dialog> keeps the focus inside and closes on Escape.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

export function Dialog(props: {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={props.wide ? 'wide' : ''}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onMouseDown={(event) => event.target === element.current && props.onClose()}
    >
      <div class="dialog-body">
        <header>
          <h2>{props.title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={props.onClose}>
            ×
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  text: ComponentChildren;
  yes: string;
  danger?: boolean;
  /** What has to be typed before the answer can be yes. */
  typed?: string;
  answer(yes: boolean): void;
}

const question = signal<Question | undefined>(undefined);

/** Asks; false when the dialog is closed without a yes. */
export function ask(asked: Omit<Question, 'answer'>): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = {
      ...asked,
      answer(yes) {
        question.value = undefined;
        resolve(yes);
      },
    };
  });
}

/** Where `ask` shows its question; once in the page. */
export function Questions() {
  const now = question.value;
  return now ? <QuestionDialog {...now} /> : null;
}

function QuestionDialog(now: Question) {
  const [text, setText] = useState('');
  const ready = now.typed === undefined || text === now.typed;
  return (
    <Dialog title={now.title} onClose={() => now.answer(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) now.answer(true);
        }}
      >
        <div class="prose">{now.text}</div>
        {now.typed !== undefined && (
          <label>
            <span>
              Type <code>{now.typed}</code> to confirm
            </span>
            <input value={text} onInput={(event) => setText(event.currentTarget.value)} />
          </label>
        )}
        <footer>
          <button type="button" onClick={() => now.answer(false)}>
            Cancel
          </button>
          <button type="submit" class={now.danger ? 'danger' : 'primary'} disabled={!ready}>
            {now.yes}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
