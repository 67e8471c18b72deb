import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import {
  ApiError,
  type ConnectionState,
  connect,
  type EventsOptions,
  type EventStream,
} from '@narthex/sdk';
import { FakeDoor, frameText, refuse, sse } from './fake_door.js';

const EVENTS = 'GET /sessions/s1/events';
let door: FakeDoor;

beforeEach(async () => {
  // No jitter: the waits between attempts are as short as they may be.
  mock.method(Math, 'random', () => 0);
  door = await FakeDoor.start();
});

afterEach(async () => {
  mock.restoreAll();
  await door.stop();
});

function watch(options: EventsOptions = {}): EventStream {
  return connect({ url: door.url, token: 't' })
    .session('s1')
    .events({ giveUpAfterMs: 5_000, ...options });
}

function deltas(count: number): { type: string; text: string }[] {
  return Array.from({ length: count }, (_, at) => ({ type: 'text_delta', text: `é${at + 1}` }));
}

async function texts(stream: EventStream, count: number): Promise<string[]> {
  const found: string[] = [];
  for await (const event of stream) {
    if (event.type === 'text_delta') found.push(event.text);
    if (found.length === count) break;
  }
  return found;
}

const wanted = (count: number) => deltas(count).map(({ text }) => text);

test('stream: a connection that is cut after every frame loses and repeats nothing', async () => {
  door.emit(...deltas(12));
  door.cutAfter = 1;
  assert.deepEqual(await texts(watch({ lastEventId: 0 }), 12), wanted(12));
  const after = door.asked(EVENTS).map((call) => Number(call.headers['last-event-id']));
  assert.deepEqual(after, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

test('stream: a connection that is cut at every byte loses and repeats nothing', async () => {
  door.emit(...deltas(3));
  const length = Buffer.from(door.frames.map(frameText).join('')).length;
  for (let at = 0; at < length; at += 1) {
    let connections = 0;
    door.on(EVENTS, (call, response) => {
      const after = Number(call.headers['last-event-id']);
      const body = Buffer.from(
        door.frames
          .filter(({ id }) => id! > after)
          .map(frameText)
          .join(''),
      );
      sse(response).write(connections++ === 0 ? body.subarray(0, at) : body);
      if (connections === 1) response.socket?.end();
    });
    assert.deepEqual(await texts(watch({ lastEventId: 0 }), 3), wanted(3), `cut at byte ${at}`);
  }
});

test('stream: frames that come again are not yielded again', async () => {
  door.emit(...deltas(6));
  let sent = 2;
  door.on(EVENTS, (_, response) => {
    const frames = door.frames.slice(0, sent);
    sent += 2;
    sse(response).end(frames.map(frameText).join(''));
  });
  assert.deepEqual(await texts(watch({ lastEventId: 0 }), 6), wanted(6));
});

test('stream: without an id it starts now, and resumes there even if it had seen nothing', async () => {
  door.emit(...deltas(2));
  const stream = watch();
  await stream.open();
  assert.equal(stream.lastEventId, 2);
  door.cut();
  await door.wait(() => door.viewers === 0, 'the cut to be seen');
  door.emit({ type: 'text_delta', text: 'in between' });
  assert.deepEqual(await texts(stream, 1), ['in between']);
});

test('stream: a gap is told, and is no place to resume at', async () => {
  door.emit(...deltas(2));
  const gap = { type: 'replay_gap', from: 1, to: 10, dropped: 10 };
  let connections = 0;
  door.on(EVENTS, (_, response) => {
    connections += 1;
    if (connections === 1) return void sse(response).end(frameText({ data: gap }));
    sse(response).write(frameText({ id: 11, data: { type: 'text_delta', text: 'x' } }));
  });
  const stream = watch({ lastEventId: 0 });
  assert.deepEqual((await stream.next()).value, gap);
  assert.equal(stream.lastEventId, 0);
  assert.deepEqual(await texts(stream, 1), ['x']);
  assert.deepEqual(
    door.asked(EVENTS).map((call) => call.headers['last-event-id']),
    ['0', '0'],
  );
});

test('stream: Retry-After of a 503 is obeyed', async () => {
  door.emit(...deltas(1));
  door.on(EVENTS, (_, response) => {
    door.off(EVENTS);
    refuse(response, 503, 'shutting_down', { 'retry-after': '1' });
  });
  const states: ConnectionState[] = [];
  const began = Date.now();
  await texts(watch({ lastEventId: 0, onConnection: (state) => states.push(state) }), 1);
  assert.ok(Date.now() - began >= 990, 'expected to wait for a second');
  assert.deepEqual(
    states.map(({ state }) => state),
    ['waiting', 'open', 'closed'],
  );
  assert.equal(states[0]?.state === 'waiting' && states[0].retryInMs, 1_000);
});

for (const [status, code] of [
  [401, 'unauthorized'],
  [404, 'session_not_found'],
  [403, 'forbidden_origin'],
] as const) {
  test(`stream: ${status} ends it at once`, async () => {
    door.on(EVENTS, (_, response) => refuse(response, status, code));
    const failure = { name: 'ApiError', status, code, requestId: 'r-1' };
    await assert.rejects(watch({ lastEventId: 0 }).next(), failure);
    assert.equal(door.asked(EVENTS).length, 1);
  });
}

test('stream: a connection that stays silent is given up and made again', async () => {
  door.emit(...deltas(1));
  let connections = 0;
  door.on(EVENTS, (_, response) => {
    connections += 1;
    if (connections === 1) return; // Not even an answer.
    if (connections === 2) return void sse(response); // An answer, and nothing more.
    sse(response).write(frameText(door.frames[0]!));
  });
  assert.deepEqual(await texts(watch({ lastEventId: 0, silenceMs: 60 }), 1), wanted(1));
  assert.equal(connections, 3);
});

test('stream: heartbeats keep a silent connection alive', async () => {
  door.emit(...deltas(1));
  door.on(EVENTS, (_, response) => {
    sse(response);
    let beats = 0;
    const timer = setInterval(() => {
      beats += 1;
      response.write(beats < 12 ? ': heartbeat\n\n' : frameText(door.frames[0]!));
      if (beats === 12) clearInterval(timer);
    }, 25);
  });
  assert.deepEqual(await texts(watch({ lastEventId: 0, silenceMs: 150 }), 1), wanted(1));
  assert.equal(door.asked(EVENTS).length, 1);
});

test('stream: Retry-After may be a date', async () => {
  const later = new Date(Date.now() + 4_000).toUTCString();
  door.on(EVENTS, (_, response) =>
    refuse(response, 503, 'shutting_down', { 'retry-after': later }),
  );
  const controller = new AbortController();
  let retryInMs = 0;
  const onConnection = (state: ConnectionState) => {
    if (state.state === 'waiting') retryInMs = state.retryInMs;
    controller.abort(new Error('seen'));
  };
  const options = { lastEventId: 0, signal: controller.signal, onConnection };
  await assert.rejects(watch(options).next(), /seen/);
  assert.ok(
    retryInMs > 1_000 && retryInMs <= 4_000,
    `expected about three seconds, got ${retryInMs}`,
  );
});

test('stream: what is no stream of events is an error', async () => {
  door.on(EVENTS, (_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<p>log in</p>');
  });
  await assert.rejects(watch({ lastEventId: 0 }).next(), { status: 0, code: 'bad_answer' });
});

test('stream: a frame that is no event counts as a broken connection', async () => {
  door.emit(...deltas(2));
  for (const garbage of ['{"type":', '[]', 'null', '{"type":7}', '"x"']) {
    let connections = 0;
    door.on(EVENTS, (call, response) => {
      const after = Number(call.headers['last-event-id']);
      const bad = connections++ === 0 ? `id: 2\ndata: ${garbage}\n\n` : '';
      const [first, second] = door.frames.map(frameText);
      sse(response).write((after < 1 ? first! : '') + bad + (bad === '' ? second! : ''));
    });
    assert.deepEqual(await texts(watch({ lastEventId: 0 }), 2), wanted(2), garbage);
    assert.equal(connections, 2);
  }
});

test('stream: garbage that comes again ends it', async () => {
  door.on(EVENTS, (_, response) => void sse(response).end('data: garbage\n\n'));
  await assert.rejects(watch({ lastEventId: 0 }).next(), { code: 'bad_answer' });
  assert.equal(door.asked(EVENTS).length, 2);
});

test('stream: it gives up in time while the server says nothing at all', async () => {
  door.on('GET /sessions/s1', () => undefined);
  door.on(EVENTS, () => undefined);
  for (const options of [{}, { lastEventId: 0 }]) {
    const began = Date.now();
    const stream = watch({ ...options, giveUpAfterMs: 150 });
    await assert.rejects(stream.next(), { code: 'unreachable' });
    const tookMs = Date.now() - began;
    assert.ok(tookMs >= 140 && tookMs < 1_500, `expected about 150 ms, got ${tookMs}`);
  }
});

test('stream: looking up where it begins is one attempt each time', async () => {
  door.on('GET /sessions/s1', (_, response) => {
    door.off('GET /sessions/s1');
    refuse(response, 503, 'shutting_down');
  });
  const states: string[] = [];
  const stream = watch({ onConnection: ({ state }) => states.push(state) });
  await stream.open();
  assert.equal(door.asked('GET /sessions/s1').length, 2);
  assert.deepEqual(states, ['waiting', 'open']);
  stream.close();
});

test('stream: a longer Retry-After than a minute ends it', async () => {
  door.on(EVENTS, (_, response) =>
    refuse(response, 503, 'shutting_down', { 'retry-after': '61' }),
  );
  await assert.rejects(watch({ lastEventId: 0 }).next(), { status: 503, retryAfterMs: 61_000 });
});

test('stream: a server that is gone ends it within the time allowed', async () => {
  const stream = watch({ lastEventId: 0, giveUpAfterMs: 60 });
  await stream.open();
  await door.stop();
  const error = await stream.next().then(
    () => assert.fail('expected an error'),
    (reason: unknown) => reason,
  );
  assert.ok(
    error instanceof ApiError && error.code === 'unreachable' && error.retryable,
    String(error),
  );
  door = await FakeDoor.start();
});

test('stream: an event over the limit ends it', async () => {
  door.emit({ type: 'text_delta', text: 'x'.repeat(500) });
  await assert.rejects(watch({ lastEventId: 0, frameCharsMax: 300 }).next(), {
    code: 'frame_too_large',
  });
});

for (const reason of ['deleted', 'closed']) {
  for (const way of ['ends', 'breaks']) {
    test(`stream: it ends when the session was ${reason} and the stream ${way}`, async () => {
      door.emit(...deltas(1));
      door.on(EVENTS, (_, response) => {
        if (door.asked(EVENTS).length > 1) return refuse(response, 404, 'session_not_found');
        const closed = { id: 2, data: { type: 'session_closed', reason } };
        sse(response).write([door.frames[0]!, closed].map(frameText).join(''));
        setTimeout(() => (way === 'ends' ? response.end() : response.socket?.destroy()), 10);
      });
      const kinds: string[] = [];
      for await (const event of watch({ lastEventId: 0 })) kinds.push(event.type);
      assert.deepEqual(kinds, ['text_delta', 'session_closed']);
    });
  }
}

test('stream: a server that stops is no end', async () => {
  door.emit(...deltas(2));
  door.on(EVENTS, (_, response) => {
    door.off(EVENTS);
    const closed = { id: 2, data: { type: 'session_closed', reason: 'shutdown' } };
    sse(response).end([door.frames[0]!, closed].map(frameText).join(''));
    door.emit({ type: 'text_delta', text: 'after it' });
  });
  assert.deepEqual(await texts(watch({ lastEventId: 0 }), 2), ['é1', 'after it']);
});

test('stream: an end that is replayed from an earlier life is no end', async () => {
  door.emit({ type: 'session_closed', reason: 'deleted' }, ...deltas(2));
  assert.deepEqual(await texts(watch({ lastEventId: 0 }), 2), wanted(2));
});

test('stream: leaving the loop closes the connection', async () => {
  door.emit(...deltas(3));
  assert.deepEqual(await texts(watch({ lastEventId: 0 }), 1), wanted(1));
  await door.wait(() => door.viewers === 0, 'the connection closed');
});

test('stream: close() ends an iteration that waits', async () => {
  const stream = watch({ lastEventId: 0 });
  await stream.open();
  const waiting = stream.next();
  stream.close();
  assert.deepEqual(await waiting, { done: true, value: undefined });
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
  await door.wait(() => door.viewers === 0, 'the connection closed');
});

test('stream: its signal makes it throw, connected, waiting or not begun', async () => {
  const reason = new Error('enough');
  const connected = new AbortController();
  const first = watch({ lastEventId: 0, signal: connected.signal });
  await first.open();
  setTimeout(() => connected.abort(reason), 10);
  await assert.rejects(first.next(), reason);

  door.on(EVENTS, (_, response) => refuse(response, 503, 'shutting_down', { 'retry-after': '60' }));
  const waiting = new AbortController();
  const onConnection = () => setTimeout(() => waiting.abort(reason), 10);
  await assert.rejects(
    watch({ lastEventId: 0, signal: waiting.signal, onConnection, giveUpAfterMs: 90_000 }).next(),
    reason,
  );

  const before = door.calls.length;
  await assert.rejects(watch({ signal: AbortSignal.abort(reason) }).next(), reason);
  assert.equal(door.calls.length, before, 'expected no request');
});

test('stream: events of newer servers come through', async () => {
  door.emit({ type: 'from_the_future', level: 9 });
  const { value } = await watch({ lastEventId: 0 }).next();
  assert.equal(value?.type, 'from_the_future');
  assert.equal((value as Record<string, unknown>)['level'], 9);
});

test('stream: one over all sessions has no ids, and begins anew with each connection', async () => {
  let connections = 0;
  door.on('GET /events', (_, response) => {
    connections += 1;
    const snapshot = [{ data: { type: 'snapshot_start' } }, { data: { type: 'snapshot_end' } }];
    sse(response).write(snapshot.map(frameText).join(''));
    setTimeout(() => response.socket?.end(), 10);
  });
  const client = connect({ url: door.url, token: 't' });
  const kinds: string[] = [];
  // Longer than is allowed without progress: each snapshot is some.
  const stream = client.watch({ topics: ['state', 'usage'], giveUpAfterMs: 40 });
  for await (const event of stream) if (kinds.push(event.type) === 20) break;
  assert.deepEqual(kinds.slice(0, 4), [
    'snapshot_start',
    'snapshot_end',
    'snapshot_start',
    'snapshot_end',
  ]);
  assert.equal(connections, 10);
  assert.equal(door.calls[0]?.path, '/events?topics=state,usage');
  assert.equal(door.calls[1]?.headers['last-event-id'], undefined);
});
