import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import { ApiError, connect } from '@narthex/sdk';
import { FakeDoor, json, refuse } from './fake_door.js';

let door: FakeDoor;

beforeEach(async () => {
  mock.method(Math, 'random', () => 0);
  door = await FakeDoor.start();
});

afterEach(async () => {
  mock.restoreAll();
  await door.stop();
});

const session = () => connect({ url: door.url, token: 'secret' }).session('s1');

test('call: each request carries the token', async () => {
  await session().info();
  await session().prompt('hi');
  assert.deepEqual(
    door.calls.map((call) => call.headers.authorization),
    ['Bearer secret', 'Bearer secret'],
  );
  assert.equal(door.calls[1]?.headers['content-type'], 'application/json');
});

test('call: a refusal becomes an ApiError with all that the server said', async () => {
  door.on('GET /sessions/s1', (_, response) => refuse(response, 404, 'session_not_found'));
  const error = await session()
    .info()
    .then(
      () => assert.fail('expected an error'),
      (reason: unknown) => reason,
    );
  assert.ok(error instanceof ApiError && error instanceof Error);
  assert.equal(error.status, 404);
  assert.equal(error.code, 'session_not_found');
  assert.equal(error.message, 'no: session_not_found');
  assert.equal(error.requestId, 'r-1');
  assert.equal(error.retryable, false);
});

test('call: an error page of a proxy becomes an ApiError too', async () => {
  door.on('POST /sessions/s1/undo', (_, response) => {
    response
      .writeHead(502, { 'content-type': 'text/html', 'x-request-id': 'p-9' })
      .end('<h1>Bad Gateway</h1>');
  });
  await assert.rejects(session().undo(), {
    status: 502,
    code: 'http_502',
    requestId: 'p-9',
    retryable: true,
  });
});

test('call: an answer that is no JSON is an error', async () => {
  door.on('GET /sessions/s1', (_, response) => void response.writeHead(200).end('<html>'));
  await assert.rejects(session().info(), { status: 0, code: 'bad_answer', retryable: false });
});

test('call: a prompt whose answer was lost is sent again with the same key', async () => {
  door.on('POST /sessions/s1/prompt', (_, response) => {
    if (door.calls.length < 3) return void response.socket?.destroy();
    json(response, 202, { promptId: 'p1', queued: false, position: 0 });
  });
  assert.equal((await session().prompt('hi')).promptId, 'p1');
  const keys = new Set(door.calls.map((call) => call.headers['idempotency-key']));
  assert.equal(door.calls.length, 3);
  assert.equal(keys.size, 1);
  assert.match(String([...keys][0]), /^[0-9a-f]{32}$/);
  await session().prompt('hi');
  assert.ok(
    !keys.has(door.calls[3]?.headers['idempotency-key']),
    'expected another key for another prompt',
  );
});

test('call: keys are made where there is no secure context too', async () => {
  mock.method(crypto, 'randomUUID', () => assert.fail('only secure contexts have it'));
  await session().prompt('hi');
  door.on('POST /sessions', (_, response) => json(response, 201, { id: 's1' }));
  await connect({ url: door.url, token: 't' }).createSession();
  assert.ok(door.calls.every((call) => call.headers['idempotency-key'] !== undefined));
});

test('call: what has surely not arrived is sent again, whatever it is', async () => {
  let sent = 0;
  const refused = () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    throw Object.assign(new TypeError('fetch failed'), { cause });
  };
  const fetch: typeof globalThis.fetch = (input, init) =>
    (sent += 1) < 3 ? refused() : globalThis.fetch(input, init);
  door.on('POST /sessions/s1/undo', (_, response) => json(response, 200, { undone: true }));
  await connect({ url: door.url, token: 't', fetch }).session('s1').undo();
  assert.equal(door.calls.length, 1);
  assert.equal(sent, 3);
});

test('call: a fault of the server is tried again where nothing changes', async () => {
  for (const route of ['GET /sessions/s1', 'POST /sessions/s1/mode']) {
    door.on(route, (_, response) => refuse(response, 500, 'internal_error'));
  }
  await assert.rejects(session().info(), { status: 500, retryable: false });
  await assert.rejects(session().setMode('ask'), { status: 500 });
  assert.equal(door.asked('GET /sessions/s1').length, 5);
  assert.equal(door.asked('POST /sessions/s1/mode').length, 1);
});

test('call: an attempt has a limit of its own', async () => {
  door.on('GET /sessions/s1', () => undefined);
  const settings = { timeoutMs: 30 };
  await assert.rejects(session().info(settings), /no answer to GET \/sessions\/s1 within 30 ms/);
  assert.equal(door.calls.length, 5);
});

test('call: a longer Retry-After than a minute is the caller\'s to wait for', async () => {
  door.on('GET /sessions/s1', (_, response) =>
    refuse(response, 503, 'shutting_down', { 'retry-after': '61' }),
  );
  await assert.rejects(session().info(), { status: 503, retryAfterMs: 61_000 });
  assert.equal(door.calls.length, 1);
});

test('call: an interrupt may name its prompt', async () => {
  await session().interrupt();
  await session().interrupt({ promptId: 'p1' });
  await session().interrupt({ clearQueue: true });
  const bodies = door.calls.map((call) => call.body);
  assert.deepEqual(bodies, [{}, { promptId: 'p1' }, { clearQueue: true }]);
});

test('call: what must not happen twice is not sent twice', async () => {
  for (const [route, call] of [
    ['undo', () => session().undo()],
    ['rewind', () => session().rewind('c1')],
  ] as const) {
    door.on(`POST /sessions/s1/${route}`, (_, response) => void response.socket?.destroy());
    await assert.rejects(call(), { status: 0, code: 'unreachable', retryable: true }, route);
    assert.equal(door.asked(`POST /sessions/s1/${route}`).length, 1, route);
  }
});

test('call: attempts are counted', async () => {
  door.on('GET /sessions/s1', (_, response) => refuse(response, 503, 'shutting_down'));
  await assert.rejects(session().info(), { status: 503 });
  assert.equal(door.calls.length, 5);
  await assert.rejects(connect({ url: door.url, token: 't', attempts: 1 }).session('s1').info(), {
    status: 503,
  });
  assert.equal(door.calls.length, 6);
});

test('call: 429 is tried again where the server says when, and else the caller decides', async () => {
  door.on('POST /sessions/s1/prompt', (_, response) => refuse(response, 429, 'queue_full'));
  await assert.rejects(session().prompt('hi'), { code: 'queue_full', retryable: false });
  assert.equal(door.calls.length, 1);
  door.on('GET /sessions/s1', (_, response) => {
    door.off('GET /sessions/s1');
    refuse(response, 429, 'rate_limited', { 'retry-after': '0' });
  });
  await session().info();
  assert.equal(door.calls.length, 3);
});

test('call: a signal ends it, also between two attempts', async () => {
  const reason = new Error('enough');
  door.on('GET /sessions/s1', () => undefined);
  await assert.rejects(session().info({ signal: AbortSignal.abort(reason) }), reason);
  const controller = new AbortController();
  setTimeout(() => controller.abort(reason), 20);
  await assert.rejects(session().info({ signal: controller.signal }), reason);
  door.on('GET /sessions/s1', (_, response) => refuse(response, 503, 'x', { 'retry-after': '60' }));
  const between = new AbortController();
  setTimeout(() => between.abort(reason), 50);
  await assert.rejects(session().info({ signal: between.signal }), reason);
});

test('call: the signal of the connection ends everything', async () => {
  const controller = new AbortController();
  const client = connect({ url: door.url, token: 't', signal: controller.signal });
  const stream = client.session('s1').events();
  await stream.open();
  const reason = new Error('over');
  controller.abort(reason);
  await assert.rejects(stream.next(), reason);
  await assert.rejects(client.health(), reason);
});

test('call: a path prefix of the address is kept', async () => {
  const client = connect({ url: `${door.url}/some/where/`, token: 't' });
  await client
    .session('a/b')
    .info()
    .catch(() => undefined);
  assert.equal(door.calls[0]?.path, '/some/where/v1/sessions/a%2Fb');
});

test('call: an address that is none is refused at once', () => {
  for (const url of ['127.0.0.1:7420', 'localhost:7420', 'example.com']) {
    const words = `url must begin with http:// or https://, got '${url}'`;
    assert.throws(() => connect({ url, token: 't' }), { name: 'TypeError', message: words });
  }
  assert.throws(() => connect({ url: 'http://', token: 't' }), TypeError);
  assert.throws(() => connect({ url: 'ftp://127.0.0.1', token: 't' }), /http:\/\/ or https:\/\//);
});

test('call: a redirect is not followed with the token', async () => {
  const other = await FakeDoor.start();
  door.on(
    'GET /sessions/s1',
    (_, response) =>
      void response.writeHead(302, { location: `${other.url}/v1/sessions/s1` }).end(),
  );
  await assert.rejects(connect({ url: door.url, token: 't', attempts: 1 }).session('s1').info(), {
    code: 'unreachable',
  });
  assert.equal(other.calls.length, 0);
  await other.stop();
});

test('call: a transcript is read page by page', async () => {
  const all = Array.from({ length: 450 }, (_, at) => ({
    id: `m${at + 1}`,
    role: 'user',
    content: [],
    createdAt: '',
  }));
  door.on('GET /sessions/s1/messages', (call, response) => {
    const query = new URLSearchParams(call.path.split('?')[1]);
    const from = query.has('after') ? all.findIndex(({ id }) => id === query.get('after')) + 1 : 0;
    const end = from + Number(query.get('limit'));
    json(response, 200, { messages: all.slice(from, end), hasMore: end < all.length });
  });
  assert.deepEqual(
    (await session().messages()).map(({ id }) => id),
    all.map(({ id }) => id),
  );
  assert.equal(door.calls.length, 3);
  assert.deepEqual(
    (await session().messages({ after: 'm3', limit: 2 })).map(({ id }) => id),
    ['m4', 'm5'],
  );
  assert.equal((await session().messages({ limit: 201 })).length, 201);
});

test('call: closing a session that is closed is fine', async () => {
  await session().close();
  door.on('DELETE /sessions/s1', (_, response) => refuse(response, 404, 'session_not_found'));
  await session().close({ purge: true });
  assert.equal(door.calls[1]?.path, '/sessions/s1?purge=true');
  door.on('DELETE /sessions/s1', (_, response) => refuse(response, 401, 'unauthorized'));
  await assert.rejects(session().close(), { code: 'unauthorized' });
});

test('call: another fetch can be given', async () => {
  const seen: string[] = [];
  const client = connect({
    url: 'http://example.invalid',
    token: 't',
    fetch: async (input) => {
      seen.push(String(input));
      return Response.json({ status: 'ok' });
    },
  });
  assert.deepEqual(await client.health(), { status: 'ok' });
  assert.deepEqual(seen, ['http://example.invalid/v1/health']);
});
