// Short messages at the foot of the page: what was done, what was refused and why.

import { signal } from '@preact/signals';

type Kind = 'good' | 'bad';

interface Message {
  id: number;
  text: string;
  kind: Kind;
}

const messages = signal<Message[]>([]);
let nextId = 1;
const SHOWN_MS = { good: 4_000, bad: 12_000 };
const MAX_SHOWN = 4;

export function say(text: string, kind: Kind = 'good'): void {
  const message = { id: nextId, text, kind };
  nextId += 1;
  messages.value = [...messages.value.slice(1 - MAX_SHOWN), message];
  setTimeout(() => dismiss(message.id), SHOWN_MS[kind]);
}

function dismiss(id: number): void {
  messages.value = messages.value.filter((one) => one.id !== id);
}

/** Does something and says how it went; whether it went well. */
export async function attempt(act: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await act();
    if (done) say(done);
    return true;
  } catch (error) {
    say((error as Error).message, 'bad');
    return false;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.value.map((message) => (
        <div key={message.id} class={`toast ${message.kind}`}>
          <span>{message.text}</span>
          <button
            type="button"
            class="quiet"
            aria-label="Dismiss"
            onClick={() => dismiss(message.id)}
          >
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
