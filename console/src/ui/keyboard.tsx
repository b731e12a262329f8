// The keyboard: `/` goes to the search field, `g` and a letter to a page, `?` shows this.
//
// A letter is left alone while something is typed, or a dialog is open.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { PAGES } from '../pages';
import { go } from '../router';
import { Dialog } from './dialog';

export const helpShown = signal(false);
const SEQUENCE_MS = 1_200;

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

export function useShortcuts(): void {
  useEffect(() => {
    let goAt = Number.NEGATIVE_INFINITY;
    const pressed = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && isTyping(event.target)) (event.target as HTMLElement).blur();
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector('dialog[open]')) return;
      if (event.timeStamp - goAt < SEQUENCE_MS) {
        const page = PAGES.find((one) => one.letter === event.key);
        goAt = Number.NEGATIVE_INFINITY;
        if (page) {
          go(page.id);
          event.preventDefault();
        }
      } else if (event.key === 'g') {
        goAt = event.timeStamp;
      } else if (event.key === '/') {
        document.querySelector<HTMLElement>('[data-search]')?.focus();
        event.preventDefault();
      } else if (event.key === '?') {
        helpShown.value = true;
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}

const OTHERS: [string, string][] = [
  ['/', 'to the search field'],
  ['?', 'this list'],
  ['Esc', 'leave the field, close the dialog'],
  ['↑ ↓', 'in the key tree: to the next key'],
  ['← →', 'in the key tree: close and open a prefix'],
  ['o', 'in the key tree: look for this prefix only'],
  ['Enter', 'open what is chosen'],
  ['Tab', 'in the command line: complete'],
];

export function KeyboardHelp() {
  if (!helpShown.value) return null;
  return (
    <Dialog title="Keyboard" wide onClose={() => (helpShown.value = false)}>
      <dl class="shortcuts">
        {PAGES.map((page) => (
          <div key={page.id}>
            <dt>
              <kbd>g</kbd> <kbd>{page.letter}</kbd>
            </dt>
            <dd>{page.title}</dd>
          </div>
        ))}
        {OTHERS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
