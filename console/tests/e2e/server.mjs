// A server of its own for the tests: begun on a free port in an empty directory, filled by RESP,
// stopped by its process.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PROGRAM =
  process.env.PANTALA ?? new URL('../../../target/debug/pantala', import.meta.url).pathname;
const READY_MS = 30_000;

export async function freePort() {
  const listener = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => listener.once('listening', resolve));
  const { port } = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

/** A connection that speaks RESP, as far as the tests need it. */
export class Client {
  constructor(port) {
    this.socket = net.connect(port, '127.0.0.1');
    this.text = '';
    this.closed = new Promise((resolve) => this.socket.once('close', resolve));
    this.socket.on('data', (data) => {
      this.text += data.toString('latin1');
      this.told?.();
    });
    this.socket.on('error', () => {});
  }

  send(words) {
    const parts = words.map((word) => {
      const bytes = Buffer.isBuffer(word) ? word : Buffer.from(String(word));
      return Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]);
    });
    this.socket.write(Buffer.concat([Buffer.from(`*${words.length}\r\n`), ...parts]));
  }

  /** Waits until what was sent has been answered; gives back all that was read. */
  async settled() {
    const mark = `mark-${Math.random()}`;
    this.send(['ECHO', mark]);
    while (!this.text.includes(mark)) {
      await new Promise((resolve) => {
        this.told = resolve;
      });
    }
    const text = this.text.slice(0, this.text.indexOf(mark));
    this.text = '';
    if (/^-/m.test(text)) throw new Error(text.match(/^-.*/m)[0]);
    return text;
  }

  end() {
    this.socket.destroy();
  }
}

export class Server {
  static async begin(...flags) {
    const server = new Server();
    server.port = await freePort();
    server.directory = mkdtempSync(join(tmpdir(), 'console-'));
    server.flags = flags;
    await server.start();
    return server;
  }

  async start() {
    const place = ['--port', this.port, '--bind', '127.0.0.1', '--dir', this.directory];
    const rest = ['--save', '', '--threads', '2', ...this.flags];
    this.process = spawn(PROGRAM, [...place, ...rest].map(String), { stdio: 'ignore' });
    this.ended = new Promise((resolve) => this.process.once('exit', resolve));
    const before = Date.now();
    while (!(await this.isReady())) {
      if (Date.now() - before > READY_MS) throw new Error('the server does not begin');
    }
  }

  async isReady() {
    try {
      return (await fetch(`${this.address}/healthz`)).ok;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
      return false;
    }
  }

  get address() {
    return `http://127.0.0.1:${this.port}`;
  }

  async run(...commands) {
    const client = new Client(this.port);
    for (const words of commands) client.send(words);
    const text = await client.settled();
    client.end();
    return text;
  }

  async stop() {
    this.process.kill('SIGTERM');
    await this.ended;
  }

  async end() {
    await this.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }
}
