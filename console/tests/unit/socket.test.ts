import assert from 'node:assert/strict';
import test from 'node:test';
import { CommandError } from '../../src/api/reply';
import { LostError, Socket } from '../../src/api/socket';
import { FakeSocket } from './fake_socket';

function opened() {
  FakeSocket.all = [];
  Object.assign(globalThis, { WebSocket: FakeSocket });
  const socket = new Socket(() => 'ws://here/api/socket');
  socket.open();
  return { socket, fake: FakeSocket.all[0] as FakeSocket };
}

test('what is asked before the socket is open is sent then', () => {
  const { socket, fake } = opened();
  void socket.ask(['PING'], 3);
  socket.figures(500);
  assert.equal(fake.sent.length, 0);
  fake.onopen();
  assert.equal(fake.sent[0], '{"id":1,"run":["PING"],"db":3}');
  assert.deepEqual(fake.sent.slice(1), ['{"figures":500}']);
});

test('replies find who asked, in any order; errors are thrown', async () => {
  const { socket, fake } = opened();
  fake.onopen();
  const [first, second] = [socket.run(['GET', 'a']), socket.run(['NO'])];
  fake.receive({ id: 2, reply: { error: 'ERR unknown command' } });
  fake.receive({ id: 1, reply: null });
  assert.equal(await first, null);
  await assert.rejects(second, CommandError);
});

test('commands that are asked together are few messages', async () => {
  const { socket, fake } = opened();
  fake.onopen();
  const few = socket.askAll(
    [
      ['GET', 'a'],
      ['TYPE', 'a'],
    ],
    2,
  );
  assert.deepEqual(JSON.parse(fake.sent[0] ?? ''), {
    id: 1,
    runs: [
      ['GET', 'a'],
      ['TYPE', 'a'],
    ],
    db: 2,
  });
  fake.receive({ id: 1, replies: [{ error: 'ERR no' }, 'none'] });
  assert.deepEqual(await few, [{ error: 'ERR no' }, 'none']);
  const many = socket.askAll([
    ...Array.from({ length: 700 }, () => ['PING']),
    ['SET', 'a', 'x'.repeat(1_000_000)],
    ['PING'],
  ]);
  const lengths = fake.sent.slice(1).map((text) => JSON.parse(text).runs.length);
  assert.deepEqual(lengths, [600, 100, 1, 1]);
  lengths.forEach((_, index) => {
    fake.receive({
      id: 5 - index,
      replies: Array.from({ length: lengths[3 - index] ?? 0 }, () => index),
    });
  });
  const replies = await many;
  assert.deepEqual([replies[0], replies[600], replies[700], replies[701]], [3, 2, 1, 0]);
  assert.deepEqual(await socket.askAll([]), []);
  const refused = socket.askAll([['PING'], ['PING']]);
  fake.receive({ id: 6, error: 'too many' });
  assert.deepEqual(await refused, [{ error: 'too many' }, { error: 'too many' }]);
  const lost = socket.askAll([['PING']]);
  fake.onclose();
  await assert.rejects(lost, LostError);
});

test('what waits is told when the socket is lost or closed', async () => {
  const { socket, fake } = opened();
  fake.onopen();
  const waiting = socket.run(['BLPOP', 'a', '0']);
  fake.onclose();
  await assert.rejects(waiting, LostError);
  assert.equal(socket.state.value, 'opening');
  socket.close();
  await assert.rejects(socket.run(['PING']), LostError);
});

test('what only reads is asked again when the socket is opened anew', async () => {
  const { socket, fake } = opened();
  fake.onopen();
  const reading = socket.read(['SCAN', '0']);
  socket.open();
  const next = FakeSocket.all[1] as FakeSocket;
  await new Promise((resolve) => setImmediate(resolve));
  next.onopen();
  const asked = next.sent.map((text) => JSON.parse(text) as { id: number; run?: string[] });
  assert.deepEqual(asked[0]?.run, ['SCAN', '0']);
  next.receive({ id: asked[0]?.id, reply: ['0', []] });
  assert.deepEqual(await reading, ['0', []]);
  const again = socket.read(['SCAN', '0']);
  socket.close();
  await assert.rejects(again, LostError);
});

test('what comes unasked is heard until one forgets', () => {
  const { socket, fake } = opened();
  const heard: unknown[] = [];
  const forget = socket.listen({ push: (message) => heard.push(message) });
  fake.receive({ push: ['message', 'news', 'hello'] });
  forget();
  fake.receive({ push: ['message', 'news', 'again'] });
  assert.deepEqual(heard, [['message', 'news', 'hello']]);
});
