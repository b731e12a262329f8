// What all pages share: the session, the socket, the history of figures, the chosen database and
// colours.
//
// Invariant: the socket belongs to the session. When who is logged in changes, it is opened anew.

import { computed, effect, signal } from '@preact/signals';
import { type Figures, type Sample, sampleOf } from './api/figures';
import { samplesOf } from './api/history';
import { HttpError, login, logout, readHistory, readSession, type Session } from './api/http';
import { Socket } from './api/socket';
import { say } from './ui/toast';

export const session = signal<Session | undefined>(undefined);
/** Why the session could not be read, while the server cannot be reached. */
export const unreachable = signal('');
export const mayWrite = computed(() => session.value?.mayWrite ?? false);
/** Nobody may see anything before a login. */
export const mustLogIn = computed(() => {
  const now = session.value;
  return now?.needsLogin === true && now.user === null;
});

export const socketAddress = () => `${location.origin.replace(/^http/, 'ws')}/api/socket`;
export const socket = new Socket(socketAddress, () => void refreshSession());
export const run = socket.run.bind(socket);
export const read = socket.read.bind(socket);

/** Figures come each second; this many samples are kept: an hour. */
export const FIGURES_MS = 1_000;
const MAX_SAMPLES = 3_600;

export const figures = signal<Figures | undefined>(undefined);
/**
 * The last hour: what the server has kept of it, and what has come since. The array stays the same
 * one; `figures` tells that it grew.
 */
export const samples: Sample[] = [];
/** The last day, a sample for each tenth second, while a page shows it. */
export const daySamples = signal<Sample[]>([]);

export const database = signal(Number(localStorage.getItem('database') ?? 0) || 0);
effect(() => localStorage.setItem('database', String(database.value)));

export type Theme = 'system' | 'light' | 'dark';
export const theme = signal((localStorage.getItem('theme') as Theme | null) ?? 'system');
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(prefersDark.matches);
prefersDark.addEventListener('change', (event) => {
  systemDark.value = event.matches;
});
export const isDark = computed(() =>
  theme.value === 'system' ? systemDark.value : theme.value === 'dark',
);
effect(() => {
  localStorage.setItem('theme', theme.value);
  document.documentElement.dataset.theme = isDark.value ? 'dark' : 'light';
});

socket.listen({
  figures(now) {
    const before = figures.peek();
    const sample = before && sampleOf(now, before);
    if (sample) samples.push(sample);
    if (samples.length > MAX_SAMPLES) samples.splice(0, samples.length - MAX_SAMPLES);
    figures.value = now;
  },
  error: (text) => say(text, 'bad'),
});

/** Reads who is logged in; opens the socket when he may see something. */
export async function refreshSession(): Promise<void> {
  try {
    session.value = await readSession();
    unreachable.value = '';
  } catch (error) {
    unreachable.value = (error as Error).message;
    if (session.value === undefined) setTimeout(() => void refreshSession(), 2_000);
    return;
  }
  if (mustLogIn.value) socket.close();
  else if (socket.state.value === 'closed') openSocket();
}

function openSocket(): void {
  socket.open();
  socket.figures(FIGURES_MS);
  void loadHour();
}

/** Puts what the server has kept of the last hour before the samples that have come. */
async function loadHour(): Promise<void> {
  try {
    const kept = samplesOf(await readHistory('hour'));
    const first = samples[0]?.atMs ?? Number.POSITIVE_INFINITY;
    samples.unshift(...kept.filter((sample) => sample.atMs < first));
    if (samples.length > MAX_SAMPLES) samples.splice(0, samples.length - MAX_SAMPLES);
  } catch {
    // Without the right to it the charts begin now.
  }
}

/** Reads the last day anew. */
export async function loadDay(): Promise<void> {
  try {
    daySamples.value = samplesOf(await readHistory('day'));
  } catch (error) {
    say((error as Error).message, 'bad');
  }
}

/** Whether the login dialog is open, and what it says at first. */
export const loginDialog = signal<{ reason: string } | undefined>(undefined);

/** Logs in; throws the server's reason when it refuses. */
export async function logIn(user: string, password: string): Promise<void> {
  await login(user, password);
  openSocket();
  await refreshSession();
  loginDialog.value = undefined;
}

export async function logOut(): Promise<void> {
  await logout();
  socket.close();
  figures.value = undefined;
  samples.length = 0;
  daySamples.value = [];
  await refreshSession();
}

/** Lets the visitor write: at once where no password is set, else by the login dialog. */
export async function unlock(): Promise<boolean> {
  if (session.value?.needsLogin === false) {
    try {
      await logIn('default', '');
      return mayWrite.value;
    } catch (error) {
      if (!(error instanceof HttpError)) {
        say((error as Error).message, 'bad');
        return false;
      }
    }
  }
  loginDialog.value = { reason: '' };
  return false;
}
