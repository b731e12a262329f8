// A sample of the keys that is added up while it grows, with its buttons: begin, stop, look further.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { count } from '../api/format';
import { asNumber } from '../api/reply';
import { type Sampled, Sampler } from '../api/sampler';
import type { Budget } from '../api/scan';
import { database, run, socket } from '../state';
import { attempt } from './toast';

export interface Found<Sum> {
  sum: Sum;
  /** Keys that were looked at, and keys there are. */
  looked: number;
  total: number;
  done: boolean;
}

export interface Sample<Sum> {
  found: Signal<Found<Sum> | undefined>;
  busy: Signal<boolean>;
  begin: () => void;
  further: () => void;
  stop: () => void;
}

/** What is found is drawn again at most so often; much, which takes long to sort, less often. */
const redrawMs = (looked: number) => Math.max(250, looked / 100);

/** `fresh` makes an empty sum, `add` adds to it. */
export function useSample<Sum>(
  budget: Budget,
  fresh: () => Sum,
  add: (sum: Sum, batch: Sampled[]) => void,
): Sample<Sum> {
  const found = useSignal<Found<Sum> | undefined>(undefined);
  const busy = useSignal(false);
  const walk = useRef<{ sampler: Sampler; sum: Sum } | undefined>(undefined);
  const further = () =>
    void attempt(async () => {
      const now = walk.current;
      if (!now) return;
      busy.value = true;
      const total = asNumber(await run(['DBSIZE'], database.value));
      let drawnAt = 0;
      const show = () => {
        if (walk.current !== now) return;
        const { sampler, sum } = now;
        found.value = { sum, looked: sampler.looked, total, done: sampler.done };
        drawnAt = performance.now();
      };
      try {
        await now.sampler.step(budget, (batch) => {
          add(now.sum, batch);
          if (performance.now() - drawnAt > redrawMs(now.sampler.looked)) show();
        });
      } finally {
        show();
        if (walk.current === now) busy.value = false;
      }
    });
  const stop = () => walk.current?.sampler.stop();
  const begin = () => {
    stop();
    const sampler = new Sampler(run, (all, db) => socket.askAll(all, db), database.value);
    walk.current = { sampler, sum: fresh() };
    further();
  };
  useEffect(() => stop, []);
  return { found, busy, begin, further, stop };
}

export function sampleNote(found: Found<unknown> | undefined): string {
  if (!found) return `database ${database.value}`;
  if (found.done) return `all ${count(found.looked)} keys`;
  return `estimates from ${count(found.looked)} of ${count(found.total)} keys`;
}

export function SampleButtons<Sum>(props: { sample: Sample<Sum>; first: string }) {
  const { sample } = props;
  const found = sample.found.value;
  if (sample.busy.value) {
    return (
      <button type="button" onClick={sample.stop}>
        Stop
      </button>
    );
  }
  return (
    <>
      <button type="button" class={found ? '' : 'primary'} onClick={sample.begin}>
        {found ? 'Look again' : props.first}
      </button>
      {found && !found.done && (
        <button type="button" onClick={sample.further}>
          Look further
        </button>
      )}
    </>
  );
}
