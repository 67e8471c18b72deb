import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import { connect, type Event, type Session } from '@narthex/sdk';
import { FakeDoor, frameText, json, refuse, sse } from './fake_door.js';

const PROMPT = 'POST /sessions/s1/prompt';
const INTERRUPT = 'POST /sessions/s1/interrupt';
const EVENTS = 'GET /sessions/s1/events';
const started = { type: 'prompt_started', promptId: 'p1', messageId: 'm1', content: [] };
const usage = { inputTokens: 1, outputTokens: 2, cacheReadTokens: 0, cacheWriteTokens: 0 };
const result = { reason: 'completed', usage, turns: 1, durationMs: 3, text: 'done' };
const finished = { type: 'prompt_finished', promptId: 'p1', result };
const target = { summary: 'write a.txt', effect: 'write' };
const permission = {
  type: 'permission_request',
  requestId: 'r1',
  toolCallId: 'c1',
  toolName: 'write_file',
  effect: 'write',
  target,
  input: {},
  suggestedRules: [],
  risk: 'low',
};
const question = {
  type: 'question_request',
  requestId: 'r2',
  question: 'Which?',
  options: [{ id: 'a', label: 'A' }],
  multiSelect: false,
  allowOther: true,
};
const plan = { type: 'plan_request', requestId: 'r3', toolCallId: 'c3', plan: '# Plan' };

let door: FakeDoor;
let session: Session;

beforeEach(async () => {
  mock.method(Math, 'random', () => 0);
  door = await FakeDoor.start();
  session = connect({ url: door.url, token: 't', streams: { giveUpAfterMs: 5_000 } }).session('s1');
});

afterEach(async () => {
  mock.restoreAll();
  await door.stop();
});

/** Answers the prompt and emits what it sets off. */
function plays(...events: ({ type: string } & Record<string, unknown>)[]): void {
  door.on(PROMPT, (_, response) => {
    json(response, 202, { promptId: 'p1', queued: false, position: 0 });
    door.emit(...events);
  });
}

const answers = (id: string) =>
  door.asked(`POST /sessions/s1/permissions/${id}`).map((call) => call.body);
const interrupts = () => door.asked(INTERRUPT).map((call) => call.body);
const at = (route: string) =>
  door.calls.findIndex(({ method, path }) => `${method} ${path}` === route);
const kinds: string[] = [];
const onEvent = (event: Event) => void kinds.push(event.type);
beforeEach(() => kinds.splice(0));

test('run: it watches before it prompts, and gives the events and the result of its prompt', async () => {
  door.emit({ type: 'text_delta', text: 'long ago' });
  plays(started, { type: 'text_delta', text: 'done' }, finished, { type: 'session_updated' });
  const found = await session.run('go', {
    onEvent,
    attachments: [{ type: 'file', path: 'a.txt' }],
  });
  assert.deepEqual(found, { ...result, sessionId: 's1' });
  assert.deepEqual(kinds, ['prompt_started', 'text_delta', 'prompt_finished']);
  const routes = door.calls.map((call) => `${call.method} ${call.path}`);
  assert.deepEqual(routes, ['GET /sessions/s1', EVENTS, PROMPT]);
  assert.equal(door.asked(EVENTS)[0]?.headers['last-event-id'], '1');
  assert.deepEqual(door.asked(PROMPT)[0]?.body, {
    text: 'go',
    attachments: [{ type: 'file', path: 'a.txt' }],
  });
  await door.wait(() => door.viewers === 0, 'the stream closed');
});

test('run: without callbacks requests are denied, dismissed, rejected', async () => {
  plays(started, permission, question, plan);
  const running = session.run('go');
  await door.until('POST /sessions/s1/permissions/r3');
  door.emit(finished);
  await running;
  assert.deepEqual(answers('r1'), [{ answer: 'deny' }]);
  assert.deepEqual(answers('r2'), [{ answer: { dismissed: true } }]);
  assert.deepEqual(answers('r3'), [{ answer: { approved: false } }]);
});

const FORMS = [
  [permission, 'onPermission', { answer: 'allow_once' }, { answer: 'allow_once' }],
  [
    permission,
    'onPermission',
    { answer: 'allow_always', rule: 'x(y)', persist: 'session' },
    { answer: 'allow_always', rule: 'x(y)', persist: 'session' },
  ],
  [permission, 'onPermission', { kind: 'allow_once' }, { answer: 'allow_once' }],
  [
    permission,
    'onPermission',
    { kind: 'allow_always', rule: 'x' },
    { answer: 'allow_always', rule: 'x' },
  ],
  [
    permission,
    'onPermission',
    { kind: 'deny', feedback: 'no' },
    { answer: 'deny', feedback: 'no' },
  ],
  [
    question,
    'onQuestion',
    { answer: { answers: ['A'], other: 'b' } },
    { answer: { answers: ['A'], other: 'b' } },
  ],
  [question, 'onQuestion', { kind: 'answered', answers: ['A'] }, { answer: { answers: ['A'] } }],
  [question, 'onQuestion', { kind: 'dismissed' }, { answer: { dismissed: true } }],
  [
    plan,
    'onPlan',
    { answer: { approved: true, mode: 'ask' } },
    { answer: { approved: true, mode: 'ask' } },
  ],
  [
    plan,
    'onPlan',
    { kind: 'approved', mode: 'auto-edit' },
    { answer: { approved: true, mode: 'auto-edit' } },
  ],
  [
    plan,
    'onPlan',
    { kind: 'rejected', feedback: 'split' },
    { answer: { approved: false, feedback: 'split' } },
  ],
] as const;

for (const [request, callback, decision, body] of FORMS) {
  test(`run: ${callback} may return ${JSON.stringify(decision)}`, async () => {
    plays(started, request);
    let asked: unknown;
    const running = session.run('go', {
      [callback]: (given: unknown) => ((asked = given), decision),
    });
    await door.until(`POST /sessions/s1/permissions/${request.requestId}`);
    door.emit(finished);
    await running;
    assert.deepEqual(answers(request.requestId), [body]);
    assert.equal((asked as { requestId: string }).requestId, request.requestId);
  });
}

for (const [name, onPermission] of [
  [
    'throws',
    () => {
      throw new Error('callback broke');
    },
  ],
  ['rejects', () => Promise.reject(new Error('callback broke'))],
] as const) {
  test(`run: a callback that ${name} leaves a no, the interrupt, and its error`, async () => {
    plays(started, permission);
    await assert.rejects(session.run('go', { onPermission }), /callback broke/);
    assert.deepEqual(answers('r1'), [{ answer: 'deny' }]);
    assert.deepEqual(interrupts(), [{ promptId: 'p1' }]);
    assert.ok(at(INTERRUPT) > at('POST /sessions/s1/permissions/r1'), 'expected the no first');
  });
}

test('run: a callback that returns nonsense allows nothing and is told what is wrong', async () => {
  for (const [wrong, words] of [
    [undefined, /must return an object/],
    [{ kind: 'maybe' }, /unknown kind 'maybe'/],
  ] as const) {
    plays(started, permission);
    await assert.rejects(session.run('go', { onPermission: () => wrong as never }), words);
  }
  assert.deepEqual(answers('r1'), [{ answer: 'deny' }, { answer: 'deny' }]);
});

for (const [status, code] of [
  [400, 'validation_error'],
  [403, 'locked_by_policy'],
] as const) {
  test(`run: an answer that the server does not take (${status}) becomes a no`, async () => {
    plays(started, permission, question, plan);
    for (const id of ['r1', 'r2', 'r3']) {
      const route = `POST /sessions/s1/permissions/${id}`;
      door.on(route, (_, response) => {
        if (door.asked(route).length === 1) return refuse(response, status, code);
        json(response, 200, { ok: true });
        if (['r1', 'r2', 'r3'].every((each) => answers(each).length === 2)) door.emit(finished);
      });
    }
    const found = await session.run('go', {
      onPermission: () => ({ kind: 'allow_always', rule: '((' }),
      onQuestion: () => ({ kind: 'answered', answers: ['Z'] }),
      onPlan: () => ({ kind: 'approved', mode: 'full-auto' }),
    });
    assert.equal(found.reason, 'completed');
    const feedback = `the answer could not be taken: no: ${code}`;
    assert.deepEqual(answers('r1')[1], { answer: 'deny', feedback });
    assert.deepEqual(answers('r2')[1], { answer: { dismissed: true } });
    assert.deepEqual(answers('r3')[1], { answer: { approved: false, feedback } });
    assert.deepEqual(interrupts(), []);
  });
}

test('run: another refusal of an answer comes out as its error', async () => {
  plays(started, permission);
  door.on('POST /sessions/s1/permissions/r1', (_, response) =>
    refuse(response, 401, 'unauthorized'),
  );
  await assert.rejects(session.run('go'), { code: 'unauthorized' });
  assert.deepEqual(interrupts(), [{ promptId: 'p1' }]);
});

test('run: an answer is repeated for as long as the stream tries', async () => {
  plays(started, permission);
  const route = 'POST /sessions/s1/permissions/r1';
  door.on(route, (_, response) => {
    if (door.asked(route).length < 12) return void response.socket?.destroy();
    json(response, 200, { ok: true });
    door.emit(finished);
  });
  assert.equal((await session.run('go')).reason, 'completed');
  assert.equal(door.asked(route).length, 12);

  const patience = { url: door.url, token: 't', streams: { giveUpAfterMs: 50 } };
  door.on(route, (_, response) => void setTimeout(() => response.socket?.destroy(), 10));
  plays(started, permission);
  await assert.rejects(connect(patience).session('s1').run('go'), { code: 'unreachable' });
});

test('run: a request that somebody else decides ends its callback, and the prompt goes on', async () => {
  plays(started, permission);
  const resolved = {
    type: 'request_resolved',
    requestId: 'r1',
    kind: 'permission',
    outcome: 'deny',
    by: 'client',
  };
  const running = session.run('go', {
    onPermission: (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('not needed any more')));
        door.emit(resolved, finished);
      }),
  });
  assert.equal((await running).reason, 'completed');
  assert.deepEqual(answers('r1'), []);
  plays(started, permission);
  door.on('POST /sessions/s1/permissions/r1', (_, response) => {
    refuse(response, 409, 'request_resolved');
    door.emit(finished);
  });
  assert.equal((await session.run('go')).reason, 'completed');
});

test('run: a request that comes again after a reconnect is asked once', async () => {
  plays(started, permission);
  let asked = 0;
  const running = session.run('go', { onPermission: () => ((asked += 1), { kind: 'allow_once' }) });
  await door.until('POST /sessions/s1/permissions/r1');
  door.emit(permission, finished);
  await running;
  assert.equal(asked, 1);
});

test('run: requests are asked for beside each other', async () => {
  plays(started, permission, { ...permission, requestId: 'r9' });
  let open = 0;
  let asked: () => void = () => undefined;
  const second = new Promise<void>((resolve) => (asked = resolve));
  const running = session.run('go', {
    onPermission: async () => {
      if ((open += 1) === 2) asked();
      await second;
      return { kind: 'allow_once' };
    },
  });
  await door.until('POST /sessions/s1/permissions/r1');
  await door.until('POST /sessions/s1/permissions/r9');
  door.emit(finished);
  await running;
});

test('run: what other prompts say and ask is not ours', async () => {
  plays(
    { type: 'prompt_queued', promptId: 'p1', position: 1, content: [] },
    { type: 'text_delta', text: 'of another' },
    { ...permission, requestId: 'other' },
    { ...finished, promptId: 'p0' },
    started,
    { type: 'text_delta', text: 'ours' },
    finished,
  );
  await session.run('go', { onEvent });
  assert.deepEqual(kinds, ['prompt_queued', 'prompt_started', 'text_delta', 'prompt_finished']);
  assert.deepEqual(answers('other'), []);
});

test('run: a listener that throws interrupts, and its error comes out', async () => {
  plays(started, { type: 'text_delta', text: 'x' }, finished);
  const broken = { onEvent: () => Promise.reject(new Error('listener broke')) };
  await assert.rejects(session.run('go', broken), /listener broke/);
  assert.equal(door.asked(INTERRUPT).length, 1);
});

test('run: its signal interrupts the prompt', async () => {
  plays(started);
  const controller = new AbortController();
  const reason = new Error('enough');
  const running = session.run('go', {
    signal: controller.signal,
    onEvent: () => controller.abort(reason),
  });
  await assert.rejects(running, reason);
  assert.equal(door.asked(INTERRUPT).length, 1);
  await door.wait(() => door.viewers === 0, 'the stream closed');
});

test('run: its signal interrupts at once, also while a listener is busy', async () => {
  plays(started);
  const controller = new AbortController();
  const running = session.run('go', {
    signal: controller.signal,
    onEvent: async () => {
      controller.abort(new Error('enough'));
      await door.until(INTERRUPT);
    },
  });
  await assert.rejects(running, /enough/);
  assert.equal(door.asked(INTERRUPT).length, 1);
});

test('run: a signal that is aborted already sends no prompt', async () => {
  await assert.rejects(
    session.run('go', { signal: AbortSignal.abort(new Error('enough')) }),
    /enough/,
  );
  assert.equal(door.asked(PROMPT).length, 0);
});

test('run: aborted behind another turn, it stops its own prompt alone', async () => {
  door.on(PROMPT, (_, response) => {
    json(response, 202, { promptId: 'p1', queued: true, position: 1 });
    door.emit({ type: 'prompt_queued', promptId: 'p1', position: 1, content: [] });
  });
  const controller = new AbortController();
  const running = session.run('go', {
    signal: controller.signal,
    onEvent: () => controller.abort(new Error('enough')),
  });
  await assert.rejects(running, /enough/);
  assert.deepEqual(interrupts(), [{ promptId: 'p1' }]);
  await door.wait(() => door.viewers === 0, 'no stream left');
});

test('run: aborted while the prompt is sent, it stops what arrives', async () => {
  const controller = new AbortController();
  door.on(PROMPT, (_, response) => {
    // The answer to the first never comes.
    if (!controller.signal.aborted) return controller.abort(new Error('enough'));
    json(response, 202, { promptId: 'p1', queued: false, position: 0 });
  });
  await assert.rejects(session.run('go', { signal: controller.signal }), /enough/);
  const keys = door.asked(PROMPT).map((call) => call.headers['idempotency-key']);
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.deepEqual(interrupts(), [{ promptId: 'p1' }]);
});

test('run: left at its done, it interrupts nobody', async () => {
  const done = { type: 'done', reason: 'completed', usage, turns: 1, durationMs: 3, text: 'done' };
  plays(started, done);
  for await (const event of session.stream('go')) if (event.type === 'done') break;
  await door.wait(() => door.viewers === 0, 'the stream closed');
  assert.deepEqual(interrupts(), []);
});

test('run: a gap that holds the start of the prompt does not hide its requests', async () => {
  door.on(PROMPT, (_, response) => {
    json(response, 202, { promptId: 'p1', queued: false, position: 0 });
    door.info = { state: 'waiting', queued: 0, pendingRequests: 1 };
    door.pending = [permission];
    door.on(EVENTS, (__, stream) => {
      const gap = { type: 'replay_gap', from: 1, to: 40, dropped: 40 };
      sse(stream).write(frameText({ data: gap }));
      door.on('POST /sessions/s1/permissions/r1', (___, answer) => {
        json(answer, 200, { ok: true });
        stream.write(frameText({ id: 41, data: finished }));
      });
    });
    door.cut();
  });
  assert.equal((await session.run('go', { onEvent })).reason, 'completed');
  assert.deepEqual(answers('r1'), [{ answer: 'deny' }]);
  assert.deepEqual(kinds, ['replay_gap', 'prompt_finished']);
});

test('run: many at once over one signal are no leak', async () => {
  plays();
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on('warning', onWarning);
  const shared = new AbortController();
  const client = connect({ url: door.url, token: 't', signal: shared.signal });
  for (let n = 0; n < 30; n += 1) client.session('s1').events();
  const runs = Array.from({ length: 30 }, () =>
    client.session('s1').run('go', { signal: shared.signal }),
  );
  await door.until(PROMPT, 30);
  door.emit(started, finished);
  await Promise.all(runs);
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', onWarning);
  assert.deepEqual(warnings, []);
});

test('run: a refused prompt comes out as its error', async () => {
  door.on(PROMPT, (_, response) => refuse(response, 413, 'payload_too_large'));
  await assert.rejects(session.run('go'), { status: 413, code: 'payload_too_large' });
  await door.wait(() => door.viewers === 0, 'the stream closed');
  assert.equal(door.asked(INTERRUPT).length, 0);
});

test('run: a stream that is cut at every frame changes nothing', async () => {
  const words = Array.from({ length: 10 }, (_, at) => ({ type: 'text_delta', text: `${at}` }));
  door.cutAfter = 1;
  plays(started, ...words, finished);
  let text = '';
  await session.run('go', {
    onEvent: (event) => void (text += event.type === 'text_delta' ? event.text : ''),
  });
  assert.equal(text, '0123456789');
});

test('run: a prompt that ended in a gap is told as lost', async () => {
  const gap = { type: 'replay_gap', from: 1, to: 40, dropped: 40 };
  door.on(PROMPT, (_, response) => {
    json(response, 202, { promptId: 'p1', queued: false, position: 0 });
    door.on(EVENTS, (__, stream) => {
      sse(stream).write(
        frameText({ data: gap }) + frameText({ id: 41, data: { type: 'session_updated' } }),
      );
      stream.socket?.end();
    });
    door.frames.push({ id: 41, data: { type: 'session_updated' } });
    door.cut();
  });
  await assert.rejects(session.run('go', { onEvent }), { code: 'events_lost', status: 0 });
  assert.deepEqual(kinds, ['replay_gap']);
  assert.equal(door.asked(INTERRUPT).length, 0);
});

test('run: a request that fell into a gap is answered', async () => {
  plays(started);
  const running = session.run('go');
  await door.wait(() => door.viewers === 1 && door.asked(PROMPT).length === 1, 'the prompt');
  await new Promise((resolve) => setTimeout(resolve, 30));
  door.info = { state: 'waiting', queued: 0, pendingRequests: 1 };
  door.pending = [permission];
  door.on(EVENTS, (_, response) => {
    sse(response).write(frameText({ data: { type: 'replay_gap', from: 2, to: 40, dropped: 39 } }));
    door.on('POST /sessions/s1/permissions/r1', (__, answer) => {
      json(answer, 200, { ok: true });
      response.write(frameText({ id: 41, data: finished }));
    });
  });
  door.cut();
  assert.equal((await running).reason, 'completed');
  assert.deepEqual(answers('r1'), [{ answer: 'deny' }]);
});

test('run: a session that is deleted meanwhile is told', async () => {
  plays(started, { type: 'session_closed', reason: 'deleted' });
  const running = session.run('go', {
    onEvent: (event) => {
      if (event.type !== 'session_closed') return;
      door.on(EVENTS, (_, response) => refuse(response, 404, 'session_not_found'));
      door.cut();
    },
  });
  await assert.rejects(running, { status: 404, code: 'session_not_found' });
});

test('stream(): yields the events, and its value is the result', async () => {
  plays(started, { type: 'text_delta', text: 'x' }, finished);
  const events = session.stream('go');
  const seen: string[] = [];
  let step = await events.next();
  for (; !step.done; step = await events.next()) seen.push(step.value.type);
  assert.deepEqual(seen, ['prompt_started', 'text_delta', 'prompt_finished']);
  assert.equal(step.value.text, 'done');
  assert.equal(door.asked(INTERRUPT).length, 0);
});

test('stream(): leaving the loop early interrupts the prompt', async () => {
  plays(started, { type: 'text_delta', text: 'x' });
  for await (const event of session.stream('go')) if (event.type === 'text_delta') break;
  assert.equal(door.asked(INTERRUPT).length, 1);
  await door.wait(() => door.viewers === 0, 'the stream closed');
});

test('stream(): nothing is sent before it is read', async () => {
  session.stream('go');
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(door.calls.length, 0);
});
