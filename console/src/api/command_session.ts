// A session that somebody types commands into: what is true of it (database, MULTI, WATCH), read
// from the replies, and how it begins again when the socket was lost or the user has changed.
//
// Invariants
// 1. `db` is the database in which the next command runs, as far as replies have told.
// 2. A new session selects `db` before anything else of the page. What was asked meanwhile waits for
//    that; when it fails, it is not run, and `db` is 0.
// 3. What a session takes with it (MULTI, WATCH) is told, once.
//
// Tests: tests/unit/command_session.test.ts.

import { signal } from '@preact/signals';
import { asText, errorOf, type Reply, type Word } from './reply';
import { LostError, Socket } from './socket';

/** Why what was asked must not run in the new session; nothing: it may. */
type Hindrance = Error | undefined;

export class CommandSession {
  readonly db = signal(0);
  private readonly socket: Socket;
  /** What is queued since MULTI: of a SELECT its database. */
  private queued: (number | undefined)[] | undefined;
  private isWatching = false;
  private restored: Promise<Hindrance> = Promise.resolve(undefined);
  private settle: (hindrance: Hindrance) => void = () => {};

  constructor(
    address: () => string,
    private readonly tell: (text: string) => void,
  ) {
    this.socket = new Socket(
      address,
      () => this.ended(),
      () => this.began(),
    );
  }

  /** Begins a session, and another one whenever it is lost, until `close`. */
  open(): void {
    this.ended();
    this.socket.open();
  }

  close(): void {
    this.ended();
    this.socket.close();
  }

  /** The reply of a command, also when it is an error. */
  async ask(words: Word[]): Promise<Reply> {
    if (this.socket.state.value === 'closed') throw new LostError();
    const hindrance = await this.restored;
    if (hindrance) throw hindrance;
    const reply = await this.socket.ask(words);
    this.took(words, reply);
    return reply;
  }

  private ended(): void {
    if (this.queued) {
      this.tell('The session ended within MULTI: what was queued and not executed is gone.');
    } else if (this.isWatching) this.tell('The session ended, and with it WATCH.');
    this.left();
    this.settle(new LostError());
    if (this.db.value === 0) return;
    this.restored = new Promise((resolve) => {
      this.settle = resolve;
    });
  }

  private began(): void {
    const { settle } = this;
    const wanted = this.db.value;
    if (wanted === 0) return;
    this.socket.run(['SELECT', String(wanted)]).then(
      () => settle(undefined),
      (error: Error) => {
        // `ended` has settled it.
        if (error instanceof LostError) return;
        this.db.value = 0;
        const why = `database ${wanted} could not be selected again: ${error.message}`;
        this.tell(`The session is in database 0; ${why}`);
        settle(new Error(`Not run: ${why}`));
        this.restored = Promise.resolve(undefined);
      },
    );
  }

  private took(words: Word[], reply: Reply): void {
    const name = asText(words[0]).toUpperCase();
    const text = asText(reply);
    if (errorOf(reply) !== undefined) {
      // Other errors leave MULTI as it was.
      if (name === 'EXEC' && /^(EXECABORT|ERR EXEC without)/.test(text)) this.left();
    } else if (name === 'RESET') {
      this.left();
      this.db.value = 0;
    } else if (name === 'EXEC') {
      const db = selectedBy(this.queued ?? [], reply);
      this.left();
      if (db !== undefined) this.db.value = db;
    } else if (text === 'QUEUED' && this.queued) {
      this.queued.push(name === 'SELECT' ? Number(asText(words[1])) : undefined);
    } else if (name === 'SELECT') this.db.value = Number(asText(words[1]));
    else if (name === 'MULTI') this.queued = [];
    else if (name === 'WATCH') this.isWatching = true;
    else if (name === 'DISCARD') this.left();
    else if (name === 'UNWATCH') this.isWatching = false;
  }

  /** MULTI and WATCH are over. */
  private left(): void {
    this.queued = undefined;
    this.isWatching = false;
  }
}

/** The database that the last SELECT of a transaction has led to. */
function selectedBy(queued: (number | undefined)[], reply: Reply): number | undefined {
  if (reply === null) return undefined;
  // A reply that is too large to be sent tells nothing of its parts: they are taken for done.
  const isDone = (index: number) =>
    !Array.isArray(reply) || errorOf(reply[index] ?? null) === undefined;
  return queued.filter((db, index) => db !== undefined && isDone(index)).at(-1);
}
