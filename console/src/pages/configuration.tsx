// The settings: searched, changed while the server runs, with its reason when it refuses.

import { useSignal } from '@preact/signals';
import { count } from '../api/format';
import { readSettings, type Setting } from '../api/http';
import { run } from '../state';
import { ask } from '../ui/dialog';
import { Choice, Empty, PageHead, Panel, Search, useRefresh, WriteButton } from '../ui/parts';
import { attempt, say } from '../ui/toast';

const WHICH = [
  ['all', 'All'],
  ['changed', 'Not the default'],
  ['live', 'Can be changed now'],
] as const;

const isChanged = (setting: Setting) =>
  !setting.secret && setting.value !== undefined && setting.value !== setting.default;

export function Configuration() {
  const all = useSignal<Setting[]>([]);
  const text = useSignal('');
  const which = useSignal<(typeof WHICH)[number][0]>('all');
  const refresh = useRefresh(async () => {
    all.value = await readSettings();
  }, 0);
  const wanted = text.value.trim().toLowerCase();
  const shown = all.value.filter(
    (setting) =>
      (which.value !== 'changed' || isChanged(setting)) &&
      (which.value !== 'live' || setting.runtime) &&
      textOf(setting).includes(wanted),
  );
  const groups = new Map<string, Setting[]>();
  for (const setting of shown) {
    const group = setting.group ?? 'Settings';
    groups.set(group, [...(groups.get(group) ?? []), setting]);
  }
  const rewrite = async () => {
    const sure = await ask({
      title: 'Write the configuration file?',
      text: 'The settings as they are now are written into the file the server was started with.',
      yes: 'Write it',
    });
    if (sure) await attempt(() => run(['CONFIG', 'REWRITE']), 'The file is written.');
  };
  return (
    <>
      <PageHead
        title="Configuration"
        note={`${count(shown.length)} of ${count(all.value.length)} settings`}
      >
        <Search label="Search settings" value={text.value} onInput={(now) => (text.value = now)} />
        <Choice
          label="Which"
          value={which.value}
          options={WHICH}
          onChange={(now) => (which.value = now)}
        />
        <WriteButton onClick={() => void rewrite()}>Write to file</WriteButton>
      </PageHead>
      {shown.length === 0 && all.value.length > 0 && <Empty>No setting matches.</Empty>}
      {[...groups].map(([group, settings]) => (
        <Panel key={group} title={group}>
          <ul class="settings">
            {settings.map((setting) => (
              <SettingRow key={setting.name} setting={setting} onChanged={refresh} />
            ))}
          </ul>
        </Panel>
      ))}
    </>
  );
}

const textOf = (setting: Setting) =>
  [setting.name, ...(setting.aliases ?? []), setting.doc, setting.value ?? '']
    .join(' ')
    .toLowerCase();

function SettingRow(props: { setting: Setting; onChanged: () => void }) {
  const { setting } = props;
  const editing = useSignal(false);
  return (
    <li class={isChanged(setting) ? 'changed' : ''}>
      <div class="about">
        <h3>
          <code>{setting.name}</code>
          {!setting.runtime && <span class="badge">at start only</span>}
        </h3>
        <p>{setting.doc}</p>
        <p class="note">
          {setting.kind}
          {setting.default !== undefined && (
            <>
              {' '}
              · default <code>{setting.default || 'empty'}</code>
            </>
          )}
          {setting.aliases && setting.aliases.length > 0 && ` · also ${setting.aliases.join(', ')}`}
        </p>
      </div>
      {editing.value ? (
        <Edit
          setting={setting}
          onClose={() => (editing.value = false)}
          onChanged={props.onChanged}
        />
      ) : (
        <div class="now">
          <code>{setting.secret ? '(secret)' : setting.value || '(empty)'}</code>
          {setting.runtime && (
            <WriteButton
              class="small"
              aria-label={`Change ${setting.name}`}
              onClick={() => (editing.value = true)}
            >
              Change
            </WriteButton>
          )}
        </div>
      )}
    </li>
  );
}

/** The words of a kind that is a list of them: `yes or no`, `everysec, always, no`. */
function optionsOf(kind: string): string[] | undefined {
  if (kind === 'yes or no') return ['yes', 'no'];
  return /^[\w-]+(, [\w-]+)+$/.test(kind) ? kind.split(', ') : undefined;
}

function Edit(props: { setting: Setting; onClose: () => void; onChanged: () => void }) {
  const { setting } = props;
  const value = useSignal(setting.value ?? '');
  const reason = useSignal('');
  const options = optionsOf(setting.kind);
  const save = async () => {
    try {
      await run(['CONFIG', 'SET', setting.name, value.value]);
      say(`${setting.name} is ${setting.secret ? 'changed' : value.value || 'empty'}.`);
      props.onClose();
      props.onChanged();
    } catch (error) {
      reason.value = (error as Error).message;
    }
  };
  return (
    <form
      class="now"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {options ? (
        <select
          aria-label={`Value of ${setting.name}`}
          value={value.value}
          onChange={(event) => (value.value = event.currentTarget.value)}
        >
          {options.map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      ) : (
        <input
          aria-label={`Value of ${setting.name}`}
          class={setting.secret ? 'secret' : ''}
          autocomplete="off"
          spellcheck={false}
          ref={(element) => element?.focus()}
          value={value.value}
          onInput={(event) => (value.value = event.currentTarget.value)}
        />
      )}
      <button type="submit" class="small primary">
        Save
      </button>
      {isChanged(setting) && (
        <button type="button" class="small" onClick={() => (value.value = setting.default ?? '')}>
          Default
        </button>
      )}
      <button type="button" class="small" onClick={props.onClose}>
        Cancel
      </button>
      {reason.value && (
        <p class="reason" role="alert">
          {reason.value}
        </p>
      )}
    </form>
  );
}
