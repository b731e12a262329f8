// The one socket to the server: commands and their replies, figures, messages, traffic.
//
// Invariants
// 1. Each `run`, and each batch, settles once: by its reply, or by `LostError` when the socket ends.
// 2. A lost socket is opened again, at first soon, then every few seconds; figures and the watched
//    client are asked for again, subscriptions are not (their page does it).
//
// Tests: tests/unit/socket.test.ts.

import { signal } from '@preact/signals';
import type { Figures } from './figures';
import { orThrow, type Reply, type Word } from './reply';

/** The socket ended before the reply came. */
export class LostError extends Error {
  constructor() {
    super('The connection to the server was lost.');
  }
}

/** One command that another client has sent. */
export interface Traffic {
  atMs: number;
  client: string;
  addr: string;
  db: number;
  command: Word[];
}

export interface Listener {
  figures?(figures: Figures): void;
  push?(message: Reply[]): void;
  traffic?(one: Traffic): void;
  dropped?(count: number): void;
  /** The server says what is wrong with the socket itself. */
  error?(text: string): void;
}

type Message = {
  id?: number;
  reply?: Reply;
  replies?: Reply[];
  push?: Reply[];
  figures?: Figures;
  traffic?: Traffic;
  dropped?: number;
  error?: string;
};

interface Waiting {
  resolve(message: Message): void;
  reject(error: Error): void;
}

/** Of one message; the server takes 1,000, and 1 MB of a visitor. */
const BATCH_COMMANDS = 600;
const BATCH_LETTERS = 250_000;
const FIRST_RETRY_MS = 300;
const LAST_RETRY_MS = 5_000;

export class Socket {
  readonly state = signal<'closed' | 'opening' | 'open'>('closed');
  private socket: WebSocket | undefined;
  private waiting = new Map<number, Waiting>();
  private listeners = new Set<Listener>();
  private unsent: string[] = [];
  private nextId = 1;
  private retryMs = FIRST_RETRY_MS;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private figuresMs = 0;
  private watched: string | null = null;

  constructor(
    private readonly address: () => string,
    private readonly onLost: () => void = () => {},
    /** What it asks goes before all that waits for the socket. */
    private readonly onOpened: () => void = () => {},
  ) {}

  /** Opens the socket, and keeps it open until `close`. */
  open(): void {
    this.close();
    this.state.value = 'opening';
    const socket = new WebSocket(this.address());
    this.socket = socket;
    socket.onopen = () => this.opened();
    socket.onmessage = (event) => this.received(JSON.parse(event.data as string) as Message);
    socket.onclose = () => {
      if (this.socket === socket) this.lost();
    };
  }

  /** Ends the socket and what waits for it. */
  close(): void {
    clearTimeout(this.retry);
    const socket = this.socket;
    this.socket = undefined;
    socket?.close();
    this.state.value = 'closed';
    this.fail();
  }

  /** The reply of a command; an error of the server is thrown as `CommandError`. */
  async run(words: Word[], db?: number): Promise<Reply> {
    return orThrow(await this.ask(words, db));
  }

  /** The reply of a command that only reads: it is asked again when the socket is opened anew. */
  async read(words: Word[], db?: number): Promise<Reply> {
    for (;;) {
      try {
        return await this.run(words, db);
      } catch (error) {
        if (!(error instanceof LostError) || this.state.value === 'closed') throw error;
      }
    }
  }

  /** The reply of a command, also when it is an error. */
  async ask(words: Word[], db?: number): Promise<Reply> {
    const { reply, error } = await this.request({ run: words }, db);
    return error === undefined ? (reply ?? null) : { error };
  }

  /** The replies of commands, asked by few messages: each costs more than a command. */
  async askAll(all: Word[][], db?: number): Promise<Reply[]> {
    const parts = batchesOf(all).map(async (runs) => {
      const { replies, error } = await this.request({ runs }, db);
      return replies ?? runs.map((): Reply => ({ error: error ?? 'no replies' }));
    });
    return (await Promise.all(parts)).flat();
  }

  /** Asks for figures each so many milliseconds; 0 ends them. */
  figures(ms: number): void {
    this.figuresMs = ms;
    if (this.state.value === 'open') this.send({ figures: ms });
  }

  /** Asks for what a client sends ("0": all clients); null ends it. */
  watch(client: string | null): void {
    this.watched = client;
    if (this.state.value === 'open') this.send({ watch: client === null ? null : { client } });
  }

  /** Hears what comes unasked, until the returned function is called. */
  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }

  private request(what: object, db: number | undefined): Promise<Message> {
    if (this.state.value === 'closed') return Promise.reject(new LostError());
    const id = this.nextId;
    this.nextId += 1;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.send({ id, ...what, db });
    });
  }

  private send(message: object): void {
    const text = JSON.stringify(message);
    if (this.state.value === 'open') this.socket?.send(text);
    else this.unsent.push(text);
  }

  private opened(): void {
    this.retryMs = FIRST_RETRY_MS;
    this.state.value = 'open';
    const unsent = this.unsent;
    this.unsent = [];
    this.onOpened();
    for (const text of unsent) this.socket?.send(text);
    if (this.figuresMs > 0) this.send({ figures: this.figuresMs });
    if (this.watched !== null) this.send({ watch: { client: this.watched } });
  }

  private received(message: Message): void {
    if (message.id !== undefined) {
      this.waiting.get(message.id)?.resolve(message);
      this.waiting.delete(message.id);
      return;
    }
    for (const listener of this.listeners) tell(listener, message);
  }

  private lost(): void {
    this.socket = undefined;
    this.state.value = 'opening';
    this.fail();
    this.onLost();
    this.retry = setTimeout(() => this.open(), this.retryMs);
    this.retryMs = Math.min(this.retryMs * 2, LAST_RETRY_MS);
  }

  private fail(): void {
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    this.unsent = [];
    for (const one of waiting) one.reject(new LostError());
  }
}

/** Commands in messages that are not too large. */
function batchesOf(all: Word[][]): Word[][][] {
  const batches: Word[][][] = [];
  let batch: Word[][] = [];
  let letters = 0;
  for (const words of all) {
    const length = words.reduce((sum, word) => sum + lettersOf(word), 0);
    const isFull = batch.length === BATCH_COMMANDS || letters + length > BATCH_LETTERS;
    if (isFull && batch.length > 0) {
      batches.push(batch);
      [batch, letters] = [[], 0];
    }
    batch.push(words);
    letters += length;
  }
  if (batch.length > 0) batches.push(batch);
  return batches;
}

const lettersOf = (word: Word) => (typeof word === 'string' ? word : word.base64).length + 3;

function tell(listener: Listener, message: Message): void {
  if (message.figures) listener.figures?.(message.figures);
  if (message.push) listener.push?.(message.push);
  if (message.traffic) listener.traffic?.(message.traffic);
  if (message.dropped !== undefined) listener.dropped?.(message.dropped);
  if (message.error !== undefined) listener.error?.(message.error);
}
