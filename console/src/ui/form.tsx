// A dialog with some fields, for what is made or changed. It stays open, with the reason, while the
// server refuses.

import { useState } from 'preact/hooks';
import { editable } from '../api/editable';
import { Dialog } from './dialog';

export interface Field {
  name: string;
  value?: string;
  /** A field of several lines. */
  long?: boolean;
  options?: readonly string[];
  hint?: string;
  optional?: boolean;
}

export function FormDialog(props: {
  title: string;
  fields: Field[];
  save: string;
  onSave: (values: Record<string, string>) => Promise<void>;
  onClose: () => void;
}) {
  // As they were when the dialog was opened: what is edited belongs to these texts.
  const [texts] = useState(() =>
    props.fields.map((field) => ({
      name: field.name,
      ...editable(field.value ?? '', field.long ?? false),
    })),
  );
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(texts.map(({ name, shown }) => [name, shown])),
  );
  const [reason, setReason] = useState('');
  const [busy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    try {
      const saved = texts.map(({ name, restored }) => [name, restored(values[name] ?? '')]);
      await props.onSave(Object.fromEntries(saved));
      props.onClose();
    } catch (error) {
      setReason((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose} wide={props.fields.some((one) => one.long)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {props.fields.map((field, index) => (
          <label key={field.name}>
            <span>
              {field.name}
              {field.hint && <em> {field.hint}</em>}
              {texts[index]?.hint && <em> {texts[index]?.hint}</em>}
            </span>
            <Input
              field={field}
              value={values[field.name] ?? ''}
              onInput={(text) => setValues((now) => ({ ...now, [field.name]: text }))}
            />
          </label>
        ))}
        {reason && (
          <p class="reason" role="alert">
            {reason}
          </p>
        )}
        <footer>
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy}>
            {props.save}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Input(props: { field: Field; value: string; onInput: (text: string) => void }) {
  const { field, value, onInput } = props;
  if (field.options) {
    return (
      <select value={value} onChange={(event) => onInput(event.currentTarget.value)}>
        {field.options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    );
  }
  if (field.long) {
    return (
      <textarea
        rows={10}
        spellcheck={false}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    );
  }
  return (
    <input
      required={!field.optional}
      spellcheck={false}
      autocomplete="off"
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}
