// What the server answers over plain HTTP: who is logged in, the commands, the settings.

import type { History, Span } from './history';
import type { SampledKeys } from './hot_keys';
import type { Run } from './runs';

export interface Session {
  user: string | null;
  needsLogin: boolean;
  mayWrite: boolean;
  version: string;
  server?: { port?: number; engine?: string; workers?: number; startedMs?: number };
}

export interface CommandRow {
  name: string;
  family: string;
  summary: string;
  since?: string;
  arity: number;
  flags: string[];
  args?: Argument[];
}

/** One argument as COMMAND DOCS tells it. */
export interface Argument {
  name: string;
  type: string;
  token?: string;
  display_text?: string;
  flags?: string[];
  optional?: boolean;
  multiple?: boolean;
  multiple_token?: boolean;
  arguments?: Argument[];
}

export interface Setting {
  name: string;
  aliases?: string[];
  value?: string;
  default?: string;
  kind: string;
  doc: string;
  runtime: boolean;
  secret: boolean;
  group?: string;
}

/** A request the server refused, with its reason. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    reason: string,
  ) {
    super(reason);
  }
}

async function request(path: string, body?: object): Promise<Response> {
  const post: RequestInit | undefined = body && {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Pantala': '1' },
    body: JSON.stringify(body),
  };
  const response = await fetch(path, post);
  if (response.ok) return response;
  const text = await response.text();
  let reason = text || response.statusText;
  try {
    reason = (JSON.parse(text) as { error?: string }).error ?? reason;
  } catch {
    // The text is the reason.
  }
  throw new HttpError(response.status, reason);
}

const get = async <T>(path: string): Promise<T> => (await (await request(path)).json()) as T;

export const readSession = () => get<Session>('/api/session');
export const readCommands = () => get<CommandRow[]>('/api/commands');
export const readSettings = () => get<Setting[]>('/api/settings');
export const readHistory = (span: Span) => get<History>(`/api/history?span=${span}`);
export const readSampledKeys = () => get<SampledKeys>('/api/hotkeys');
export const readRuns = () => get<Run[]>('/api/persistence/runs');
export const login = (user: string, password: string) =>
  request('/api/login', { user, password }).then(() => undefined);
export const logout = () => request('/api/logout', {}).then(() => undefined);
