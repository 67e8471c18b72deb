import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, connect as dial, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';

import {
  ApiError,
  type Client,
  connect,
  type Event,
  type Server,
  type Session,
} from '@narthex/sdk';
import { alive, QUESTION, shell, skip, until, World, write } from './world.js';

async function open(
  world: World,
  mode: 'ask' | 'auto-edit' = 'ask',
): Promise<{ server: Server; client: Client; session: Session }> {
  const server = await world.serve();
  const client = connect({ url: server.url, token: server.token });
  return { server, client, session: await client.createSession({ mode }) };
}

const textOf = (events: Event[]) =>
  events.map((event) => (event.type === 'text_delta' ? event.text : '')).join('');

test('remote: what a client may ask', { skip }, async (context) => {
  const world = await World.make(context);
  const { client, session } = await open(world, 'auto-edit');
  await world.model.push(write(), { text: 'Written.' });
  const result = await session.run('write');
  assert.equal(result.text, 'Written.');

  const health = await client.health();
  assert.equal(health.status, 'ok');
  assert.equal(health.sessions, 1);
  assert.ok((await client.models()).some((model) => model.default));
  assert.deepEqual(
    (await client.sessions()).map(({ id }) => id),
    [session.id],
  );
  assert.deepEqual(await client.sessions({ state: 'running' }), []);
  const info = await session.info();
  assert.deepEqual([info.state, info.cwd, info.mode], ['idle', world.cwd, 'auto-edit']);
  assert.equal(info.createdAt, (await client.session(session.id).info()).createdAt);
  const usage = await session.usage();
  assert.deepEqual([usage.turns, usage.prompts, usage.outputTokens], [2, 1, 20]);
  assert.ok((await session.commands()).every(({ name }) => name.length > 0));
  assert.deepEqual(await session.permissions(), []);
  assert.deepEqual(await session.tasks(), []);
  await assert.rejects(session.stopTask('none'), { status: 404 });

  const messages = await session.messages();
  assert.deepEqual(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'assistant'],
  );
  assert.deepEqual(
    (await session.messages({ after: messages[0]!.id, limit: 1 })).map(({ id }) => id),
    [messages[1]!.id],
  );

  const points = await session.checkpoints();
  assert.equal(points.length, 1);
  assert.deepEqual((await session.undo({ dryRun: true })).undone, true);
  assert.ok(existsSync(join(world.cwd, 'new.txt')));
  const undone = await session.undo();
  assert.equal(undone.undone, true);
  assert.equal(undone.filesChanged.length, 1);
  assert.ok(!existsSync(join(world.cwd, 'new.txt')));
  const back = await session.rewind(points[0]!.id, { scope: 'conversation' });
  assert.equal(back.checkpoint.id, points[0]!.id);
  assert.ok(back.messagesRemoved > 0);

  const copy = await session.fork();
  assert.notEqual(copy.id, session.id);
  assert.equal((await copy.info()).cwd, world.cwd);
  await copy.close({ purge: true });
  await assert.rejects(copy.info(), { status: 404, code: 'session_not_found' });
  assert.equal((await session.setMode('ask')).mode, 'ask');
  assert.equal(
    (await session.setModel('anthropic/claude-opus-4-6')).model,
    'anthropic/claude-opus-4-6',
  );
  assert.equal(await session.interrupt(), false);
  await session.close();
  await session.close();
  await assert.rejects(session.run('more'), { status: 404, code: 'session_not_found' });
  const again = await client.createSession({ resume: session.id });
  assert.equal(again.id, session.id);
});

test('remote: refusals say what is wrong', { skip }, async (context) => {
  const world = await World.make(context);
  const { server, client } = await open(world);
  const stranger = connect({ url: server.url, token: 'a-wrong-token-of-some-length' });
  await assert.rejects(stranger.sessions(), { status: 401, code: 'unauthorized' });
  await assert.rejects(stranger.session('x').events().next(), {
    status: 401,
    code: 'unauthorized',
  });
  assert.deepEqual(await stranger.health(), { status: 'ok' });
  await assert.rejects(client.createSession({ cwd: '/' }), {
    status: 403,
    code: 'cwd_outside_roots',
  });
  await assert.rejects(client.session('none').run('go'), {
    status: 404,
    code: 'session_not_found',
  });
  await assert.rejects(client.createSession({ mode: 'fast' as 'ask' }), (error: unknown) => {
    assert.ok(
      error instanceof ApiError && error.code === 'validation_error' && error.requestId,
      String(error),
    );
    assert.match(error.message, /mode/);
    return true;
  });
});

test('remote: images and files go with a prompt', { skip }, async (context) => {
  const world = await World.make(context);
  const { session } = await open(world);
  writeFileSync(join(world.cwd, 'notes.txt'), 'the notes\n');
  const data =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  await world.model.push({ text: 'Seen.' });
  await session.run('look', {
    attachments: [
      { type: 'file', path: 'notes.txt' },
      { type: 'image', mimeType: 'image/png', data },
    ],
  });
  const { requests } = await world.model.report();
  const sent = JSON.stringify(requests[0]!.body);
  assert.ok(sent.includes('the notes') && sent.includes(data), sent.slice(0, 500));
});

test('remote: two clients watch, one decides', { skip }, async (context) => {
  const world = await World.make(context);
  const { client, session } = await open(world);
  const other = client.session(session.id);
  const watched: Event[] = [];
  const stream = other.events();
  await stream.open();
  await world.model.push(write(), { text: 'Written by permission.' });
  let aborted = false;
  const running = session.run('write', {
    onPermission: (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => ((aborted = true), reject(signal.reason)));
      }),
  });
  for await (const event of stream) {
    watched.push(event);
    if (event.type === 'permission_request') {
      assert.deepEqual(
        (await other.permissions()).map(({ requestId }) => requestId),
        [event.requestId],
      );
      await other.answer(event.requestId, { answer: 'allow_once' });
      await assert.rejects(other.answer(event.requestId, { answer: 'deny' }), {
        status: 409,
        code: 'request_resolved',
      });
    }
    if (event.type === 'prompt_finished') break;
  }
  assert.equal((await running).text, 'Written by permission.');
  assert.equal(textOf(watched), 'Written by permission.');
  assert.ok(aborted, 'expected the callback to be told');
});

test(
  'remote: events() from the beginning tells everything that is recorded',
  { skip },
  async (context) => {
    const world = await World.make(context);
    const { session } = await open(world);
    await world.model.push({ text: 'once' });
    await session.run('go');
    const kinds: string[] = [];
    for await (const event of session.events({ lastEventId: 0 })) {
      kinds.push(event.type);
      if (event.type === 'prompt_finished') break;
    }
    assert.equal(kinds[0], 'session_start');
    assert.ok(kinds.includes('assistant_message') && !kinds.includes('replay_gap'), kinds.join());
  },
);

test('remote: events() ends when the session is deleted', { skip }, async (context) => {
  const world = await World.make(context);
  const { session } = await open(world);
  const stream = session.events();
  await stream.open();
  await session.close();
  const kinds: string[] = [];
  for await (const event of stream) kinds.push(event.type);
  assert.equal(kinds.at(-1), 'session_closed');
});

test('remote: watch() tells what all sessions do', { skip }, async (context) => {
  const world = await World.make(context);
  const { client, session } = await open(world);
  const watched = client.watch();
  await watched.open();
  await world.model.push(write(), { text: 'Written.' });
  const running = session.run('write', { onPermission: () => ({ kind: 'allow_once' }) });
  const seen: string[] = [];
  for await (const event of watched) {
    seen.push(event.type === 'session_state' ? event.state : event.type);
    if (seen.at(-1) === 'idle' && seen.includes('waiting')) break;
  }
  assert.equal((await running).text, 'Written.');
  assert.deepEqual(seen.slice(0, 3), ['snapshot_start', 'idle', 'snapshot_end']);
  for (const what of ['running', 'permission_request', 'request_resolved', 'usage']) {
    assert.ok(seen.includes(what), `expected ${what} in ${seen}`);
  }
});

/** A way to a server that cuts every connection after so many bytes of answers. */
async function scissors(
  url: string,
  bytes: number,
): Promise<{ url: string; cuts: () => number; close: () => void }> {
  const { hostname, port } = new URL(url);
  let cuts = 0;
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = dial(Number(port), hostname);
    let left = bytes;
    for (const socket of [near, far]) {
      open.add(socket);
      socket
        .on('error', () => undefined)
        .on('close', () => (open.delete(socket), near.destroy(), far.destroy()));
    }
    near.pipe(far);
    far.on('data', (piece: Buffer) => {
      near.write(piece.subarray(0, left));
      left -= piece.length;
      // A little later: `fetch` drops what it has read and not handed on when its connection breaks.
      if (left <= 0) setTimeout(() => ((cuts += 1), near.destroy()), 5);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port: own } = server.address() as { port: number };
  const close = () => {
    server.close();
    for (const socket of open) socket.destroy();
  };
  return { url: `http://127.0.0.1:${own}`, cuts: () => cuts, close };
}

test('remote: connections that are cut all the time change nothing', { skip }, async (context) => {
  const world = await World.make(context);
  const server = await world.serve();
  const way = await scissors(server.url, 1_900);
  context.after(way.close);
  const client = connect({ url: way.url, token: server.token, attempts: 20 });
  const session = await client.createSession({ mode: 'ask' });
  await world.model.push(
    { text: 'I write. ', calls: write().calls! },
    { text: 'word '.repeat(40).trim(), deltas: 40, delayMs: 20 },
  );
  const events: Event[] = [];
  let asked = 0;
  const result = await session.run('write', {
    onEvent: (event) => void events.push(event),
    onPermission: () => ((asked += 1), { kind: 'allow_once' }),
  });
  assert.equal(result.reason, 'completed');
  assert.equal(result.text, 'word '.repeat(40).trim());
  assert.equal(asked, 1);
  assert.ok(way.cuts() >= 3, `expected several cuts, got ${way.cuts()}`);
  assert.equal(readFileSync(join(world.cwd, 'new.txt'), 'utf8'), 'hello\n');
  const recorded = events
    .filter(({ type }) => !/_delta$/.test(type))
    .map((event) => (event as { seq?: number }).seq);
  assert.deepEqual(
    recorded,
    [...new Set(recorded)].sort((a, b) => a! - b!),
    'expected each recorded event once, in order',
  );
  for (const kind of ['prompt_started', 'tool_call', 'tool_result', 'done', 'prompt_finished']) {
    assert.equal(events.filter(({ type }) => type === kind).length, 1, kind);
  }
});

for (const how of ['SIGKILL', 'SIGTERM'] as const) {
  test(`remote: run() goes on over a restart after ${how}`, { skip }, async (context) => {
    const world = await World.make(context);
    const token = 'a-token-that-both-servers-know';
    const first = await world.serve({ token });
    const port = Number(new URL(first.url).port);
    const client = connect({ url: first.url, token });
    const session = await client.createSession({ mode: 'ask' });
    await world.model.push(shell('touch made'), { text: 'Made.' });
    let asked = 0;
    let second: Server | undefined;
    const result = await session.run('make it', {
      onPermission: async () => {
        asked += 1;
        process.kill(first.pid, how);
        await until('the first server gone', () => !alive(first.pid));
        second = await world.serve({ token, port });
        return { kind: 'allow_once' };
      },
    });
    assert.notEqual(second?.pid, first.pid);
    assert.deepEqual([result.reason, result.text], ['completed', 'Made.']);
    assert.equal(asked, 1, 'expected the request not to be asked for again');
    assert.ok(existsSync(join(world.cwd, 'made')));
  });
}

test(
  'remote: a server that is killed while the model talks goes on after a restart',
  { skip },
  async (context) => {
    const world = await World.make(context);
    const token = 'a-token-that-both-servers-know';
    const first = await world.serve({ token });
    const port = Number(new URL(first.url).port);
    const session = await connect({ url: first.url, token }).createSession();
    await world.model.push(
      { text: 'never finished '.repeat(20), deltas: 50, delayMs: 100 },
      { text: 'Finished.' },
    );
    let isKilled = false;
    const result = await session.run('talk', {
      onEvent: async (event) => {
        if (event.type !== 'text_delta' || isKilled) return;
        isKilled = true;
        process.kill(first.pid, 'SIGKILL');
        await world.serve({ token, port });
      },
    });
    assert.deepEqual([result.reason, result.text], ['completed', 'Finished.']);
  },
);

test(
  'remote: a second prompt waits for the first, and can be given up',
  { skip },
  async (context) => {
    const world = await World.make(context);
    const { session } = await open(world);
    await world.model.push(QUESTION, { text: 'First.' }, { text: 'never asked for' });
    const first = session.run('first', {
      onQuestion: async () => {
        const controller = new AbortController();
        const second = session.run('second', {
          signal: controller.signal,
          onEvent: (event) =>
            void (event.type === 'prompt_queued' && controller.abort(new Error('given up'))),
        });
        await assert.rejects(second, /given up/);
        assert.equal((await session.info()).queued, 0, 'expected it withdrawn');
        return { kind: 'dismissed' };
      },
    });
    assert.equal((await first).text, 'First.');
    await until('the second prompt over', async () => {
      const { state, queued } = await session.info();
      return state === 'idle' && queued === 0;
    });
    const ends: string[] = [];
    for await (const event of session.events({ lastEventId: 0 })) {
      if (event.type === 'prompt_finished') ends.push(event.result.reason);
      if (ends.length === 2) break;
    }
    assert.deepEqual(ends.sort(), ['completed', 'interrupted']);
    const { requests } = await world.model.report();
    assert.equal(requests.length, 2, 'expected the second prompt not to run');
  },
);
