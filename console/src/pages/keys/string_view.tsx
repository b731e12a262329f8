// A string as text, JSON or hex, by pages of 64 KiB; a short one can be changed.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { bytes as bytesText, count } from '../../api/format';
import { indented, isJson } from '../../api/json_text';
import { asText, asWord, bytesOf, hex, type Word, wordOf } from '../../api/reply';
import { run } from '../../state';
import { FormDialog } from '../../ui/form';
import { Choice, copy, WriteButton } from '../../ui/parts';
import { attempt, say } from '../../ui/toast';

const PAGE_BYTES = 64 * 1024;
const MODES = [
  ['text', 'Text'],
  ['json', 'JSON'],
  ['hex', 'Hex'],
] as const;
type Mode = (typeof MODES)[number][0];

export function StringView(props: {
  name: Word;
  db: number;
  length: number;
  refreshes: number;
  onChanged: () => void;
}) {
  const { name, db, length } = props;
  const page = useSignal(0);
  const content = useSignal<Uint8Array | undefined>(undefined);
  const mode = useSignal<Mode | undefined>(undefined);
  const editing = useSignal(false);
  const read = () =>
    attempt(async () => {
      const from = page.value * PAGE_BYTES;
      const got = await run(['GETRANGE', name, String(from), String(from + PAGE_BYTES - 1)], db);
      content.value = bytesOf(asWord(got));
    });
  useEffect(() => void read(), [page.value, length, props.refreshes]);
  if (!content.value) return null;
  const whole = length <= PAGE_BYTES;
  const now = mode.value ?? modeOf(content.value, whole);
  const text =
    now === 'hex' ? hexDump(content.value, page.value * PAGE_BYTES) : textOf(content.value, now);
  const word = wordOf(content.value);
  return (
    <>
      <div class="view-bar">
        <Choice
          label="Shown as"
          value={now}
          options={MODES}
          onChange={(chosen) => (mode.value = chosen)}
        />
        {!whole && (
          <Pager page={page.value} length={length} onPage={(next) => (page.value = next)} />
        )}
        <span class="space" />
        <button type="button" class="small" onClick={() => void copy(text)}>
          Copy
        </button>
        {whole && typeof word === 'string' && (
          <WriteButton class="small" onClick={() => (editing.value = true)}>
            Change
          </WriteButton>
        )}
      </div>
      <pre class={`value ${now}`} tabIndex={0} aria-label="Value">
        {text}
      </pre>
      {editing.value && typeof word === 'string' && (
        <FormDialog
          title="Change the value"
          fields={[{ name: 'Value', value: word, long: true, optional: true }]}
          save="Save"
          onSave={async ({ Value = '' }) => {
            await change(name, word, Value, db);
            content.value = bytesOf(Value);
            props.onChanged();
          }}
          onClose={() => (editing.value = false)}
        />
      )}
    </>
  );
}

/** Writes only if the value is the one that was seen. */
async function change(name: Word, before: Word, after: string, db: number): Promise<void> {
  const reply = await run(['SET', name, after, 'IFEQ', before, 'KEEPTTL'], db);
  if (asText(reply) !== 'OK')
    throw new Error('The value has changed meanwhile; nothing was written.');
  say('Saved.');
}

function Pager(props: { page: number; length: number; onPage: (page: number) => void }) {
  const pages = Math.ceil(props.length / PAGE_BYTES);
  return (
    <span class="pager">
      <button
        type="button"
        class="small"
        disabled={props.page === 0}
        onClick={() => props.onPage(props.page - 1)}
      >
        ‹
      </button>
      <span class="note">
        {bytesText(PAGE_BYTES)} number {count(props.page + 1)} of {count(pages)}
      </span>
      <button
        type="button"
        class="small"
        disabled={props.page + 1 >= pages}
        onClick={() => props.onPage(props.page + 1)}
      >
        ›
      </button>
    </span>
  );
}

/** What suits these bytes. */
function modeOf(content: Uint8Array, whole: boolean): Mode {
  const word = wordOf(content);
  if (typeof word !== 'string' && whole) return 'hex';
  const text = asText(word);
  return whole && /^\s*[{[]/.test(text) && isJson(text) ? 'json' : 'text';
}

function textOf(content: Uint8Array, mode: Mode): string {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(content);
  if (mode !== 'json') return text;
  try {
    return indented(text);
  } catch (error) {
    return `This is no JSON: ${(error as Error).message}\n\n${text}`;
  }
}

const LINE_BYTES = 16;

/** Lines of offset, sixteen bytes, and what of them prints. */
export function hexDump(content: Uint8Array, start: number): string {
  const lines: string[] = [];
  for (let at = 0; at < content.length; at += LINE_BYTES) {
    const part = [...content.subarray(at, at + LINE_BYTES)];
    const codes = part
      .map(hex)
      .join(' ')
      .padEnd(LINE_BYTES * 3 - 1);
    const letters = part.map((byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·',
    );
    lines.push(`${(start + at).toString(16).padStart(8, '0')}  ${codes}  ${letters.join('')}`);
  }
  return lines.join('\n');
}
