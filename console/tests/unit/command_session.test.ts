import assert from 'node:assert/strict';
import test from 'node:test';
import { CommandSession } from '../../src/api/command_session';
import type { Reply } from '../../src/api/reply';
import { LostError } from '../../src/api/socket';
import { FakeSocket } from './fake_socket';

const OK: Reply = { status: 'OK' };
const QUEUED: Reply = { status: 'QUEUED' };
const turn = () => new Promise((resolve) => setImmediate(resolve));

function opened() {
  FakeSocket.all = [];
  Object.assign(globalThis, { WebSocket: FakeSocket });
  const told: string[] = [];
  const session = new CommandSession(
    () => 'ws://here/api/socket',
    (text) => told.push(text),
  );
  session.open();
  last().onopen();
  return { session, told };
}

const last = () => FakeSocket.all.at(-1) as FakeSocket;
const sent = () => last().sent.map((text) => JSON.parse(text) as { id: number; run: string[] });

/** Asks, and is answered. */
async function asked(session: CommandSession, line: string, reply: Reply) {
  const asking = session.ask(line.split(' '));
  await turn();
  last().receive({ id: sent().at(-1)?.id, reply });
  return asking;
}

/** What Unlock does to the page. */
function openAgain(session: CommandSession) {
  session.close();
  session.open();
}

test('a SELECT moves the session when it is answered with OK', async () => {
  const { session } = opened();
  await asked(session, 'select 3', OK);
  assert.equal(session.db.value, 3);
  await asked(session, 'SELECT 99', { error: 'ERR DB index is out of range' });
  await asked(session, 'GET 7', 'OK');
  assert.equal(session.db.value, 3);
});

test('a new session selects the database first', async () => {
  const { session, told } = opened();
  await asked(session, 'SELECT 3', OK);
  openAgain(session);
  const typed = session.ask(['GET', 'a']);
  await turn();
  assert.deepEqual(sent(), []);
  last().onopen();
  assert.deepEqual(
    sent().map((one) => one.run),
    [['SELECT', '3']],
  );
  last().receive({ id: sent()[0]?.id, reply: OK });
  await turn();
  assert.deepEqual(sent()[1]?.run, ['GET', 'a']);
  last().receive({ id: sent()[1]?.id, reply: 'x' });
  assert.equal(await typed, 'x');
  assert.equal(session.db.value, 3);
  assert.deepEqual(told, []);
});

test('a lost socket that opens again does so too', async () => {
  const { session } = opened();
  await asked(session, 'SELECT 3', OK);
  const timers: (() => void)[] = [];
  const before = globalThis.setTimeout;
  Object.assign(globalThis, { setTimeout: (act: () => void) => timers.push(act) });
  last().onclose();
  Object.assign(globalThis, { setTimeout: before });
  timers[0]?.();
  last().onopen();
  assert.deepEqual(sent()[0]?.run, ['SELECT', '3']);
  session.close();
});

test('when it cannot, the session is in database 0, and what was typed for the other is not run', async () => {
  const { session, told } = opened();
  await asked(session, 'SELECT 3', OK);
  openAgain(session);
  const typed = session.ask(['FLUSHDB']);
  last().onopen();
  last().receive({ id: sent()[0]?.id, reply: { error: 'ERR DB index is out of range' } });
  await assert.rejects(typed, /Not run/);
  assert.equal(sent().length, 1);
  assert.equal(session.db.value, 0);
  assert.match(told.join(), /database 3.*out of range/);
  assert.equal(await asked(session, 'GET a', 'x'), 'x');
});

test('what waits for the new session is told when that is lost, too', async () => {
  const { session } = opened();
  await asked(session, 'SELECT 3', OK);
  openAgain(session);
  const typed = session.ask(['GET', 'a']);
  session.close();
  await assert.rejects(typed, LostError);
  await assert.rejects(session.ask(['GET', 'a']), LostError);
});

test('a SELECT within MULTI counts when EXEC has run it', async () => {
  const { session } = opened();
  await asked(session, 'MULTI', OK);
  await asked(session, 'SET a b', QUEUED);
  await asked(session, 'SELECT 2', QUEUED);
  await asked(session, 'SELECT 99', QUEUED);
  assert.equal(session.db.value, 0);
  await asked(session, 'EXEC', [OK, OK, { error: 'ERR DB index is out of range' }]);
  assert.equal(session.db.value, 2);
  for (const [end, reply] of [
    ['DISCARD', OK],
    ['EXEC', null],
    ['EXEC', { error: 'EXECABORT Transaction discarded because of previous errors.' }],
  ] as const) {
    await asked(session, 'MULTI', OK);
    await asked(session, 'SELECT 5', QUEUED);
    await asked(session, end, reply);
    assert.equal(session.db.value, 2, end);
  }
});

test('a refused EXEC leaves the MULTI open', async () => {
  const { session } = opened();
  await asked(session, 'MULTI', OK);
  await asked(session, 'SELECT 5', QUEUED);
  await asked(session, 'EXEC', { error: 'NOPERM User u has no permissions' });
  await asked(session, 'EXEC', [OK]);
  assert.equal(session.db.value, 5);
});

test('RESET leads back to database 0', async () => {
  const { session, told } = opened();
  await asked(session, 'SELECT 3', OK);
  await asked(session, 'MULTI', OK);
  await asked(session, 'RESET', { status: 'RESET' });
  assert.equal(session.db.value, 0);
  openAgain(session);
  assert.deepEqual(told, []);
});

test('a MULTI or a WATCH that was lost is told once', async () => {
  const { session, told } = opened();
  await asked(session, 'MULTI', OK);
  await asked(session, 'SELECT 5', QUEUED);
  openAgain(session);
  last().onopen();
  assert.equal(told.length, 1);
  assert.match(told[0] ?? '', /MULTI/);
  assert.equal(session.db.value, 0);
  await asked(session, 'WATCH a', OK);
  openAgain(session);
  assert.match(told[1] ?? '', /WATCH/);
  last().onopen();
  await asked(session, 'WATCH a', OK);
  await asked(session, 'UNWATCH', OK);
  openAgain(session);
  assert.equal(told.length, 2);
});
