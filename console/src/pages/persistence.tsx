// What is kept on disk: the snapshot, the append-only file, how both stand, and their last runs.

import { useSignal } from '@preact/signals';
import { bytes, count, duration, micros, moment } from '../api/format';
import { readRuns } from '../api/http';
import { infoOf } from '../api/info';
import { asRecord, asText } from '../api/reply';
import { kindName, type Run, resultOf } from '../api/runs';
import { run } from '../state';
import { Bar, Empty, PageHead, Panel, Tile, useRefresh, WriteButton } from '../ui/parts';
import { type Column, PlainTable } from '../ui/table';
import { attempt, say } from '../ui/toast';

const REFRESH_MS = 2_000;
const SETTINGS = ['dir', 'dbfilename', 'save', 'appendonly', 'appendfsync', 'appendfilename'];

export function Persistence() {
  const info = useSignal<Record<string, string>>({});
  const settings = useSignal<Record<string, string>>({});
  const runs = useSignal<Run[]>([]);
  const refresh = useRefresh(async () => {
    info.value = infoOf(asText(await run(['INFO', 'persistence'])));
    runs.value = await readRuns();
    const told = asRecord(await run(['CONFIG', 'GET', ...SETTINGS]));
    settings.value = Object.fromEntries(
      Object.entries(told).map(([name, value]) => [name, asText(value)]),
    );
  }, REFRESH_MS);
  return (
    <>
      <PageHead title="Persistence" note={settings.value.dir} />
      <div class="halves">
        <Snapshot info={info.value} settings={settings.value} onChanged={refresh} />
        <AppendOnly info={info.value} settings={settings.value} onChanged={refresh} />
      </div>
      <LastRuns runs={runs.value} />
    </>
  );
}

interface Props {
  info: Record<string, string>;
  settings: Record<string, string>;
  onChanged: () => void;
}

const numberOf = (text: string | undefined) => (text === undefined ? Number.NaN : Number(text));
const isOn = (text: string | undefined) => text === '1';

function Snapshot({ info, settings, onChanged }: Props) {
  const isRunning = isOn(info.rdb_bgsave_in_progress);
  const done = numberOf(info.current_save_keys_processed);
  const total = numberOf(info.current_save_keys_total);
  const savedAt = numberOf(info.rdb_last_save_time);
  const failed = info.rdb_last_bgsave_status !== undefined && info.rdb_last_bgsave_status !== 'ok';
  const save = async () => {
    if (await attempt(() => run(['BGSAVE']), 'A snapshot is being written.')) onChanged();
  };
  return (
    <Panel
      title="Snapshot"
      note={settings.dbfilename}
      actions={
        <WriteButton class="primary" disabled={isRunning} onClick={() => void save()}>
          Write one now
        </WriteButton>
      }
    >
      <div class="tiles">
        <Tile
          name="Last"
          value={savedAt > 0 ? `${duration(Date.now() / 1000 - savedAt, 1)} ago` : 'never'}
          note={savedAt > 0 ? moment(savedAt * 1000) : ''}
        />
        <Tile
          name="Result"
          value={resultText(info.rdb_last_bgsave_status)}
          note={failed ? 'the log tells why' : tookText(info.rdb_last_bgsave_time_sec)}
          warn={failed}
        />
        <Tile
          name="Changes since"
          value={count(numberOf(info.rdb_changes_since_last_save) || 0)}
          note={settings.save ? `save ${settings.save}` : 'none by itself'}
        />
      </div>
      {isRunning && (
        <>
          <Bar share={total > 0 ? done / total : 0} label="Keys that are written" />
          <p class="note" role="status">
            {count(done || 0)} of {count(total || 0)} keys, for{' '}
            {duration(numberOf(info.rdb_current_bgsave_time_sec))}
          </p>
        </>
      )}
    </Panel>
  );
}

/** How something ended, of which servers say `ok` or `err`. */
const resultText = (status: string | undefined) => (status === 'err' ? 'failed' : (status ?? '–'));

const tookText = (seconds: string | undefined) =>
  numberOf(seconds) >= 0 ? `took ${duration(numberOf(seconds))}` : '';

function AppendOnly({ info, settings, onChanged }: Props) {
  const isEnabled = isOn(info.aof_enabled);
  const isRewriting = isOn(info.aof_rewrite_in_progress);
  const rewrite = async () => {
    if (await attempt(() => run(['BGREWRITEAOF']), 'The file is being written anew.')) onChanged();
  };
  const turn = async () => {
    const value = isEnabled ? 'no' : 'yes';
    const done = await attempt(() => run(['CONFIG', 'SET', 'appendonly', value]));
    if (!done) return;
    say(isEnabled ? 'The append-only file is off.' : 'The append-only file is on.');
    onChanged();
  };
  const failed = [info.aof_last_write_status, info.aof_last_bgrewrite_status].some(
    (status) => status !== undefined && status !== 'ok',
  );
  return (
    <Panel
      title="Append-only file"
      note={settings.appendfilename}
      actions={
        <>
          {isEnabled && (
            <WriteButton disabled={isRewriting} onClick={() => void rewrite()}>
              Write anew
            </WriteButton>
          )}
          <WriteButton class={isEnabled ? 'danger' : 'primary'} onClick={() => void turn()}>
            {isEnabled ? 'Turn off' : 'Turn on'}
          </WriteButton>
        </>
      }
    >
      <div class="tiles">
        <Tile
          name="State"
          value={isEnabled ? (isRewriting ? 'writing anew' : 'on') : 'off'}
          note={isEnabled ? `flushed ${settings.appendfsync}` : ''}
        />
        <Tile
          name="Last write"
          value={isEnabled ? resultText(info.aof_last_write_status) : '–'}
          note={isEnabled ? `writing anew: ${resultText(info.aof_last_bgrewrite_status)}` : ''}
          warn={isEnabled && failed}
        />
        <Tile
          name="Size"
          value={sizeText(info.aof_current_size)}
          note={baseText(info.aof_base_size)}
        />
      </div>
    </Panel>
  );
}

const sizeText = (text: string | undefined) => (text === undefined ? '–' : bytes(Number(text)));
const baseText = (text: string | undefined) =>
  text === undefined || text === '0' ? '' : `${bytes(Number(text))} when it was written anew`;

function LastRuns({ runs }: { runs: Run[] }) {
  return (
    <Panel title="Last runs" note="since the server began, 20 at most">
      {runs.length === 0 ? (
        <Empty>Nothing has been written yet.</Empty>
      ) : (
        <PlainTable
          rows={runs}
          columns={RUN_COLUMNS}
          rowId={(run) => `${run.kind} ${run.beganMs} ${run.tookMs}`}
        />
      )}
    </Panel>
  );
}

const RUN_COLUMNS: Column<Run>[] = [
  { name: 'Began', cell: (run) => moment(run.beganMs), width: '170px' },
  { name: 'What', cell: kindName, width: '140px' },
  { name: 'Why', cell: (run) => run.why },
  { name: 'Took', cell: (run) => micros(run.tookMs * 1000), number: true, width: '90px' },
  {
    name: 'Result',
    cell: (run) =>
      run.error === null ? (
        resultOf(run)
      ) : (
        <>
          <span class="badge failed">failed</span> {resultOf(run)}
        </>
      ),
  },
  { name: 'File', cell: (run) => run.file },
];
