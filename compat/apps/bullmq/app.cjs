// BullMQ at work: queues without a hash tag in their prefix, so its scripts reach keys that they do
// not declare.
//
// NODE_PATH=.../node_modules node app.cjs HOST:PORT. The server is emptied between the checks.
'use strict';

const assert = require('node:assert/strict');
const { Queue, Worker, QueueEvents, FlowProducer, UnrecoverableError, WaitingChildrenError, DelayedError } =
  require('bullmq');
const Redis = require('ioredis');

const [host, port] = process.argv[2].split(':');
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const PATIENCE_MS = 60_000;

const checks = [];
const check = (title, run) => checks.push({ title, run });

/** Waits until `condition` gives something true, and returns that. */
async function until(condition, what) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`${what} did not come within ${PATIENCE_MS / 1000} s`);
    await new Promise((go) => setTimeout(go, 10));
  }
}

/** Rejects when `promise` takes too long. */
function soon(promise, what) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`${what} did not come`)), PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What is opened for one check, and closed behind it. */
class Room {
  constructor() {
    this.opened = [];
    this.errors = [];
  }
  keep(thing) {
    thing.on('error', (error) => this.errors.push(error));
    this.opened.unshift(thing);
    return thing;
  }
  queue(name = 'work', options = {}) {
    return this.keep(new Queue(name, { connection, ...options }));
  }
  worker(process, options = {}, name = 'work') {
    return this.keep(new Worker(name, process, { connection, ...options }));
  }
  async events(name = 'work') {
    const events = this.keep(new QueueEvents(name, { connection, lastEventId: '0-0' }));
    await events.waitUntilReady();
    return events;
  }
  flow() {
    return this.keep(new FlowProducer({ connection }));
  }
  async close() {
    for (const thing of this.opened) await thing.close();
    if (this.errors.length) throw this.errors[0];
  }
}

async function counts(queue) {
  const all = await queue.getJobCounts();
  return Object.fromEntries(Object.entries(all).filter(([, count]) => count > 0));
}

const numbers = (count) => Array.from({ length: count }, (_, number) => number);

check('1,000 jobs of addBulk by two workers of ten slots each; each job runs once', async (room) => {
  const queue = room.queue();
  const seen = new Map();
  let running = 0;
  let most = 0;
  const jobs = numbers(1000).map((number) => ({ name: 'double', data: { number } }));
  await queue.addBulk(jobs);
  assert.deepEqual(await counts(queue), { waiting: 1000 });
  const work = async (job) => {
    most = Math.max(most, ++running);
    await new Promise(setImmediate);
    seen.set(job.id, (seen.get(job.id) ?? 0) + 1);
    running--;
    return job.data.number * 2;
  };
  room.worker(work, { concurrency: 10 });
  room.worker(work, { concurrency: 10 });
  await until(async () => (await queue.getCompletedCount()) === 1000, 'the jobs');
  assert.equal(seen.size, 1000);
  assert.ok([...seen.values()].every((times) => times === 1));
  const done = await queue.getJobs(['completed'], 0, -1);
  assert.ok(done.every((job) => job.returnvalue === job.data.number * 2));
  assert.deepEqual(await counts(queue), { completed: 1000 });
  return `${most} at once`;
});

check('events of a queue: added, active, progress, completed; waitUntilFinished', async (room) => {
  const queue = room.queue();
  const events = await room.events();
  const heard = [];
  for (const name of ['added', 'waiting', 'active', 'progress', 'completed', 'failed', 'drained']) {
    events.on(name, (told) => heard.push(name + (told.jobId ? `:${told.jobId}` : '')));
  }
  const good = await queue.add('good', {}, { jobId: 'good' });
  const bad = await queue.add('bad', {}, { jobId: 'bad' });
  room.worker(async (job) => {
    if (job.name === 'bad') throw new Error('on purpose');
    await job.updateProgress({ percent: 50 });
    await job.log('half of it');
    return { fine: true };
  });
  assert.deepEqual(await soon(good.waitUntilFinished(events), 'the result'), { fine: true });
  await assert.rejects(soon(bad.waitUntilFinished(events), 'the failure'), /on purpose/);
  await until(() => heard.includes('drained'), 'the end of the queue');
  const mine = heard.filter((text) => text.endsWith(':good'));
  assert.deepEqual(mine, ['added:good', 'waiting:good', 'active:good', 'progress:good', 'completed:good']);
  assert.ok(heard.includes('failed:bad'));
  assert.deepEqual((await queue.getJobLogs('good')).logs, ['half of it']);
  assert.deepEqual((await queue.getJob('good')).progress, { percent: 50 });
});

check('retries with fixed and exponential backoff; one that cannot be helped; retried by hand', async (room) => {
  const queue = room.queue();
  const tries = {};
  const backoff = { type: 'exponential', delay: 20 };
  await queue.add('third', {}, { attempts: 3, backoff });
  await queue.add('never', {}, { attempts: 3, backoff: { type: 'fixed', delay: 10 } });
  await queue.add('hopeless', {}, { attempts: 5 });
  room.worker(async (job) => {
    tries[job.name] = (tries[job.name] ?? 0) + 1;
    if (job.name === 'hopeless') throw new UnrecoverableError('no use');
    if (job.name === 'never' || tries[job.name] < 3) throw new Error(`try ${tries[job.name]}`);
    return tries[job.name];
  });
  await until(async () => {
    const now = await counts(queue);
    return now.completed === 1 && now.failed === 2;
  }, 'the end of all tries');
  assert.deepEqual(tries, { third: 3, never: 3, hopeless: 1 });
  const failed = await queue.getFailed();
  assert.deepEqual(failed.map((job) => job.failedReason).sort(), ['no use', 'try 3']);
  assert.equal(failed.find((job) => job.name === 'never').attemptsMade, 3);
  await failed.find((job) => job.name === 'hopeless').retry();
  await until(() => tries.hopeless === 2, 'one more try');
  await until(async () => (await queue.getFailedCount()) === 2, 'its end');
  await queue.retryJobs({ state: 'failed' });
  await until(() => tries.never === 4 && tries.hopeless === 3, 'all that failed again');
});

check('delayed jobs come in their order and not too early; promote', async (room) => {
  const queue = room.queue();
  const order = [];
  const began = Date.now();
  // They are not added at one moment.
  await queue.add('second', {}, { delay: 2_000 });
  await queue.add('first', {}, { delay: 200 });
  const far = await queue.add('far', {}, { delay: 3_600_000 });
  assert.deepEqual(await counts(queue), { delayed: 3 });
  assert.equal(await far.getState(), 'delayed');
  room.worker(async (job) => order.push([job.name, Date.now() - began]));
  await until(() => order.length === 2, 'two delayed jobs');
  assert.deepEqual(order.map(([name]) => name), ['first', 'second']);
  assert.ok(order[0][1] >= 199 && order[1][1] >= 1_999, JSON.stringify(order));
  await far.changeDelay(7_200_000);
  await far.promote();
  await until(() => order.length === 3, 'the promoted job');
  await until(async () => (await queue.getCompletedCount()) === 3, 'its end');
});

check('schedulers: every so often, with a limit, and by a cron pattern', async (room) => {
  const queue = room.queue();
  const times = { often: 0, cron: 0, three: 0 };
  await queue.upsertJobScheduler('often', { every: 100 }, { name: 'often', data: { by: 'scheduler' } });
  await queue.upsertJobScheduler('cron', { pattern: '* * * * * *' }, { name: 'cron' });
  await queue.upsertJobScheduler('three', { every: 50, limit: 3 }, { name: 'three' });
  assert.equal(await queue.getJobSchedulersCount(), 3);
  room.worker(async (job) => times[job.name]++);
  await until(() => times.often >= 4 && times.cron >= 2 && times.three >= 3, 'repeated jobs');
  const often = await queue.getJobScheduler('often');
  assert.equal(Number(often.every), 100);
  for (const id of ['often', 'cron']) assert.ok(await queue.removeJobScheduler(id));
  assert.ok(!(await queue.removeJobScheduler('nothing')));
  await until(async () => (await queue.getActiveCount()) === 0, 'the last of them');
  assert.equal(times.three, 3);
  await until(async () => (await queue.getDelayedCount()) === 0, 'the end of what was to come');
});

check('flows: parents wait for children, grandchildren, in other queues; failures go up or not', async (room) => {
  const flow = room.flow();
  const [queue, events] = [room.queue(), await room.events()];
  const part = (number) => ({ name: 'leaf', queueName: 'parts', data: { number } });
  const tree = await flow.add({
    name: 'sum',
    queueName: 'work',
    children: [
      { name: 'sum', queueName: 'work', children: numbers(20).map(part) },
      { name: 'sum', queueName: 'work', children: numbers(5).map(part) },
      part(1000),
    ],
  });
  const doomed = await flow.add({
    name: 'sum',
    queueName: 'work',
    children: [{ name: 'bad', queueName: 'parts', data: {}, opts: { failParentOnFailure: true } }, part(1)],
  });
  const lenient = await flow.add({
    name: 'sum',
    queueName: 'work',
    children: [{ name: 'bad', queueName: 'parts', data: {}, opts: { ignoreDependencyOnFailure: true } }, part(7)],
  });
  assert.equal(await tree.job.getState(), 'waiting-children');
  assert.equal((await tree.job.getDependenciesCount()).unprocessed, 3);
  room.worker(async (job) => {
    if (job.name === 'bad') throw new Error('on purpose');
    return job.data.number;
  }, { concurrency: 5 }, 'parts');
  room.worker(async (job) => {
    const values = Object.values(await job.getChildrenValues());
    return values.reduce((sum, value) => sum + value, 0);
  }, { concurrency: 3 });
  assert.equal(await soon(tree.job.waitUntilFinished(events), 'the root'), 190 + 10 + 1000);
  assert.equal(await soon(lenient.job.waitUntilFinished(events), 'the lenient parent'), 7);
  await until(async () => (await doomed.job.getState()) === 'failed', 'the failure of the parent');
  assert.equal(Object.keys((await tree.job.getDependencies()).processed).length, 3);
  assert.deepEqual((await flow.getFlow({ id: tree.job.id, queueName: 'work' })).children.length, 3);
  assert.equal(await queue.getWaitingChildrenCount(), 0);
});

check('a job that adds children while it runs, and waits for them', async (room) => {
  const [queue, events] = [room.queue(), await room.events()];
  room.worker(async (job, token) => {
    if (job.name === 'child') return job.data.number;
    if (job.data.step !== 'sum') {
      for (const number of numbers(3)) {
        const parent = { id: job.id, queue: job.queueQualifiedName };
        await queue.add('child', { number: number + 1 }, { parent });
      }
      await job.updateData({ step: 'sum' });
      if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError();
    }
    return Object.values(await job.getChildrenValues()).reduce((sum, value) => sum + value, 0);
  });
  const parent = await queue.add('parent', {});
  assert.equal(await soon(parent.waitUntilFinished(events), 'the parent'), 6);
});

check('a rate limiter: ten a 200 ms', async (room) => {
  const queue = room.queue();
  let last = 0;
  const began = Date.now();
  await queue.addBulk(numbers(35).map((number) => ({ name: 'job', data: { number } })));
  room.worker(async () => (last = Date.now()), { limiter: { max: 10, duration: 200 }, concurrency: 20 });
  await until(async () => (await queue.getCompletedCount()) === 35, 'the jobs');
  // Thirty-five jobs need four windows, so three of them pass in full.
  const took = last - began;
  assert.ok(took >= 599, `${took} ms`);
  return `35 jobs in ${took} ms`;
});

check('a worker limits the rate by itself; global concurrency', async (room) => {
  const queue = room.queue();
  let limited = 0;
  let running = 0;
  let most = 0;
  await queue.setGlobalConcurrency(2);
  await queue.addBulk(numbers(20).map((number) => ({ name: 'job', data: { number } })));
  const worker = room.worker(async (job) => {
    if (job.data.number === 5 && limited++ === 0) {
      await worker.rateLimit(150);
      throw Worker.RateLimitError();
    }
    most = Math.max(most, ++running);
    await new Promise(setImmediate);
    running--;
  }, { concurrency: 10, limiter: { max: 100, duration: 100 } });
  await until(async () => (await queue.getCompletedCount()) === 20, 'the jobs');
  assert.equal(limited, 2);
  assert.ok(most <= 2, `${most} at once`);
  assert.equal(await queue.getGlobalConcurrency(), 2);
});

check('priorities, LIFO, changed priorities', async (room) => {
  const queue = room.queue();
  const order = [];
  await queue.add('low', {}, { priority: 10 });
  await queue.add('high', {}, { priority: 1 });
  await queue.add('middle', {}, { priority: 5 });
  await queue.add('plain', {});
  await queue.add('newest', {}, { lifo: true });
  const changed = await queue.add('changed', {}, { priority: 20 });
  await changed.changePriority({ priority: 2 });
  assert.deepEqual(await queue.getCountsPerPriority([1, 2, 5, 10]), { 1: 1, 2: 1, 5: 1, 10: 1 });
  room.worker(async (job) => order.push(job.name));
  await until(() => order.length === 6, 'the jobs');
  assert.deepEqual(order, ['newest', 'plain', 'high', 'changed', 'middle', 'low']);
});

check('pause and resume; a paused worker; drain', async (room) => {
  const queue = room.queue();
  let done = 0;
  const worker = room.worker(async () => done++, { concurrency: 2 });
  await worker.waitUntilReady();
  await queue.pause();
  await queue.addBulk(numbers(10).map(() => ({ name: 'job', data: {} })));
  assert.ok(await queue.isPaused());
  assert.equal(await queue.count(), 10);
  assert.equal(done, 0);
  await queue.resume();
  await until(() => done === 10, 'the jobs after resuming');
  await worker.pause();
  await queue.addBulk(numbers(5).map(() => ({ name: 'job', data: {} })));
  await queue.add('job', {}, { delay: 3_600_000 });
  assert.equal(await queue.getWaitingCount(), 5);
  worker.resume();
  await until(() => done === 15, 'the jobs after the worker resumed');
  await queue.drain(true);
  assert.equal(await queue.count(), 0);
});

check('duplicates are dropped, deduplication by id, removal on completion', async (room) => {
  const queue = room.queue();
  await queue.add('once', { first: true }, { jobId: 'same' });
  await queue.add('once', { first: false }, { jobId: 'same' });
  assert.equal(await queue.getWaitingCount(), 1);
  assert.deepEqual((await queue.getJob('same')).data, { first: true });
  const simple = { deduplication: { id: 'customer', ttl: 60_000 } };
  const kept = await queue.add('dedup', {}, simple);
  const dropped = await queue.add('dedup', {}, simple);
  assert.equal(kept.id, dropped.id);
  assert.equal(await queue.getDeduplicationJobId('customer'), kept.id);
  for (let number = 0; number < 5; number++) {
    await queue.add('gone', {}, { removeOnComplete: true });
    await queue.add('few', {}, { removeOnComplete: { count: 2 } });
  }
  let done = 0;
  room.worker(async () => done++);
  await until(() => done === 12, 'the jobs');
  await until(async () => (await queue.getActiveCount()) === 0, 'their end');
  const names = (await queue.getCompleted()).map((job) => job.name).sort();
  assert.ok(!names.includes('gone') && names.filter((name) => name === 'few').length <= 2, `${names}`);
});

check('a worker that dies: its job is found stalled and done by another', async (room) => {
  const [queue, events] = [room.queue(), await room.events()];
  const stalled = [];
  events.on('stalled', ({ jobId }) => stalled.push(jobId));
  const hang = new Worker('work', () => new Promise(() => {}), {
    connection,
    lockDuration: 200,
    skipLockRenewal: true,
    skipStalledCheck: true,
  });
  hang.on('error', () => {});
  const job = await queue.add('job', {});
  await until(async () => (await job.getState()) === 'active', 'the running job');
  await hang.close(true);
  room.worker(async () => 'by the second', { stalledInterval: 100, maxStalledCount: 3 });
  assert.equal(await soon(job.waitUntilFinished(events), 'the result'), 'by the second');
  await until(() => stalled.includes(job.id), 'the event');
});

check('clean, obliterate: nothing is left behind', async (room) => {
  const queue = room.queue();
  const client = new Redis(connection);
  await queue.addBulk(numbers(300).map((number) => ({ name: 'job', data: { number } })));
  room.worker(async (job) => {
    if (job.data.number % 3 === 0) throw new Error('on purpose');
  }, { concurrency: 20 });
  await until(async () => (await counts(queue)).failed === 100, 'the failures');
  await until(async () => (await counts(queue)).completed === 200, 'the rest');
  assert.equal((await queue.clean(0, 50, 'completed')).length, 50);
  assert.equal((await queue.clean(0, 1000, 'failed')).length, 100);
  assert.equal((await queue.clean(3_600_000, 1000, 'completed')).length, 0);
  assert.deepEqual(await counts(queue), { completed: 150 });
  await room.opened[0].close();
  await queue.pause();
  await queue.add('late', {}, { delay: 1000 });
  await queue.obliterate();
  const left = (await client.keys('bull:work:*')).filter((key) => !key.endsWith(':meta'));
  assert.deepEqual(left, []);
  await client.quit();
});

check('ioredis: pipelines, transactions, scripts as commands, blocking, scan streams', async () => {
  const client = new Redis(connection);
  client.defineCommand('swap', {
    numberOfKeys: 2,
    lua: `local a, b = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
          redis.call('MSET', KEYS[1], b, KEYS[2], a, ARGV[1], 'undeclared') return {b, a}`,
  });
  await client.mset('a', 1, 'b', 2);
  assert.deepEqual(await client.swap('a', 'b', 'c'), ['2', '1']);
  await client.script('FLUSH');
  assert.deepEqual(await client.swap('a', 'b', 'c'), ['1', '2']);
  const replies = await client.multi().incr('a').get('c').swap('a', 'b', 'c').exec();
  assert.deepEqual(replies, [[null, 2], [null, 'undeclared'], [null, ['2', '2']]]);
  const pipe = client.pipeline();
  for (const number of numbers(2000)) pipe.set(`key:${number}`, number);
  await pipe.exec();
  let found = 0;
  for await (const keys of client.scanStream({ match: 'key:*', count: 100 })) found += keys.length;
  assert.equal(found, 2000);
  const other = client.duplicate();
  const waiting = other.blpop('list', 30);
  await client.rpush('list', 'item');
  assert.deepEqual(await soon(waiting, 'the item'), ['list', 'item']);
  await client.quit();
  await other.quit();
});

async function main() {
  const control = new Redis(connection);
  let passed = 0;
  let failed = 0;
  for (const { title, run } of checks) {
    await control.flushall();
    const room = new Room();
    const began = Date.now();
    try {
      const told = await run(room);
      await soon(room.close(), 'the closing');
      passed++;
      const took = ((Date.now() - began) / 1000).toFixed(1);
      console.log(`ok     bullmq: ${title}${told ? ` (${told})` : ''}, ${took} s`);
    } catch (error) {
      failed++;
      console.log(`FAILED bullmq: ${title}\n${error.stack}`);
      await soon(room.close(), 'the closing').catch(() => {});
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

main();
