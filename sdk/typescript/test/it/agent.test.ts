import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { type PermissionRequest, ServerProcessError } from '@narthex/sdk';
import { alive, BINARY, PLAN, QUESTION, shell, skip, until, World, write } from './world.js';

test('agent: a prompt, its events, its result, the transcript', { skip }, async (context) => {
  const world = await World.make(context);
  const agent = await world.agent();
  await world.model.push({ thinking: 'hm', text: 'Hello there, friend.', deltas: 4 });
  const kinds: string[] = [];
  let text = '';
  const result = await agent.prompt('Say hello', {
    onEvent: (event) => {
      kinds.push(event.type);
      if (event.type === 'text_delta') text += event.text;
    },
  });
  assert.equal(text, 'Hello there, friend.');
  assert.equal(result.text, 'Hello there, friend.');
  assert.equal(result.reason, 'completed');
  assert.equal(result.turns, 1);
  assert.equal(result.usage.outputTokens, 10);
  assert.equal(result.sessionId, agent.sessionId);
  assert.ok(result.durationMs >= 0);
  assert.equal(kinds[0], 'prompt_started');
  assert.deepEqual(kinds.slice(-2), ['done', 'prompt_finished']);
  for (const kind of ['turn_start', 'thinking_delta', 'text_delta', 'assistant_message', 'usage']) {
    assert.ok(kinds.includes(kind), `expected ${kind} in ${kinds}`);
  }
  assert.deepEqual(
    (await agent.messages()).map(({ role }) => role),
    ['user', 'assistant'],
  );
  assert.equal((await agent.runtime.client.health()).status, 'ok');
  assert.equal((await agent.runtime.session.info()).state, 'idle');
  const { pid } = agent.runtime;
  await agent.close();
  assert.ok(!alive(pid), 'expected the runtime gone after close');
  await assert.rejects(agent.prompt('more'), ServerProcessError);
});

test('agent: without onPermission such calls are denied', { skip }, async (context) => {
  const world = await World.make(context);
  const agent = await world.agent();
  await world.model.push(write(), { text: 'I may not.' });
  const denied: string[] = [];
  const result = await agent.prompt('write', {
    onEvent: (event) => void (event.type === 'tool_denied' && denied.push(event.by)),
  });
  assert.equal(result.text, 'I may not.');
  assert.deepEqual(denied, ['user']);
  assert.ok(!existsSync(join(world.cwd, 'new.txt')));
});

test('agent: permissions, questions and plans are asked for', { skip }, async (context) => {
  const world = await World.make(context);
  let request: PermissionRequest | undefined;
  const agent = await world.agent({
    mode: 'plan',
    onPermission: (asked) => ((request = asked), { kind: 'allow_once' }),
    onQuestion: (asked) => ({ kind: 'answered', answers: [asked.options[1]!.label] }),
    onPlan: (asked) =>
      asked.plan.includes('write the file')
        ? { kind: 'approved', mode: 'ask' }
        : { kind: 'rejected' },
  });
  await world.model.push(QUESTION, PLAN, write(), { text: 'Done.' });
  assert.equal((await agent.prompt('go')).text, 'Done.');
  assert.equal(request?.toolName, 'write_file');
  assert.equal(request.effect, 'write');
  assert.equal(request.target.effect, 'write');
  assert.match(request.target.summary, /new\.txt/);
  assert.equal(readFileSync(join(world.cwd, 'new.txt'), 'utf8'), 'hello\n');
  assert.equal((await agent.runtime.session.info()).mode, 'ask');
  const { requests } = await world.model.report();
  assert.match(JSON.stringify(requests[1]!.body), /MySQL/);
});

test('agent: a rule that is allowed for good is asked for once', { skip }, async (context) => {
  const world = await World.make(context);
  let asked = 0;
  const agent = await world.agent({
    onPermission: () => ((asked += 1), { kind: 'allow_always', rule: 'run_shell(touch *)' }),
  });
  await world.model.push(shell('touch one'), shell('touch two'), { text: 'Both.' });
  await agent.prompt('go');
  assert.equal(asked, 1);
  assert.ok(existsSync(join(world.cwd, 'one')) && existsSync(join(world.cwd, 'two')));
});

test(
  'agent: a callback that throws stops the turn, and its error comes out',
  { skip },
  async (context) => {
    const world = await World.make(context);
    const agent = await world.agent({
      onPermission: () => {
        throw new Error('callback broke');
      },
    });
    await world.model.push(write(), { text: 'never read' });
    await assert.rejects(agent.prompt('write'), /callback broke/);
    await until(
      'an idle session',
      async () => (await agent.runtime.session.info()).state === 'idle',
    );
    assert.ok(!existsSync(join(world.cwd, 'new.txt')));
  },
);

test('agent: leaving a stream early interrupts the prompt', { skip }, async (context) => {
  const world = await World.make(context);
  const agent = await world.agent();
  await world.model.push({ text: 'a very long answer '.repeat(50), deltas: 500, delayMs: 50 });
  let text = '';
  for await (const event of agent.stream('talk')) {
    if (event.type === 'text_delta') text += event.text;
    if (text.length > 10) break;
  }
  await until(
    'an idle session',
    async () => (await agent.runtime.session.info()).state === 'idle',
    5_000,
  );
  await world.model.push({ text: 'short' });
  assert.equal((await agent.prompt('again')).text, 'short');
});

test('agent: a whole stream ends by itself with the result', { skip }, async (context) => {
  const world = await World.make(context);
  const agent = await world.agent();
  await world.model.push({ text: 'one two three', deltas: 3 });
  const events = agent.stream('count');
  let step = await events.next();
  let text = '';
  for (; !step.done; step = await events.next())
    if (step.value.type === 'text_delta') text += step.value.text;
  assert.equal(text, 'one two three');
  assert.equal(step.value.reason, 'completed');
});

test('agent: a signal and interrupt() stop a prompt', { skip }, async (context) => {
  const world = await World.make(context);
  const agent = await world.agent();
  await world.model.push({ stall: true }, { stall: true });
  const reason = new Error('enough');
  const controller = new AbortController();
  const onEvent = (event: { type: unknown }) =>
    void (event.type === 'turn_start' && controller.abort(reason));
  await assert.rejects(agent.prompt('hang', { signal: controller.signal, onEvent }), reason);
  const running = agent.prompt('hang again', {
    onEvent: async (event) =>
      void (event.type === 'turn_start' && assert.equal(await agent.interrupt(), true)),
  });
  assert.equal((await running).reason, 'interrupted');
  assert.equal(await agent.interrupt(), false);
});

test('agent: mode and model can be changed', { skip }, async (context) => {
  const world = await World.make(context);
  const agent = await world.agent();
  await agent.setMode('auto-edit');
  await agent.setModel('anthropic/claude-opus-4-6');
  await world.model.push(write(), { text: 'Written.' });
  await agent.prompt('write');
  assert.ok(existsSync(join(world.cwd, 'new.txt')));
  const { requests } = await world.model.report();
  assert.equal(requests[0]!.body.model, 'claude-opus-4-6');
  await assert.rejects(agent.setModel('none'), { status: 400, code: 'invalid_model' });
});

test('agent: a stored session goes on', { skip }, async (context) => {
  const world = await World.make(context);
  const first = await world.agent();
  await world.model.push({ text: 'I am one.' });
  await first.prompt('Who are you?');
  await first.close();
  const second = await world.agent({ resume: first.sessionId });
  assert.equal(second.sessionId, first.sessionId);
  await world.model.push({ text: 'Still one.' });
  await second.prompt('And now?');
  assert.equal((await second.messages()).length, 4);
  await second.close();
  // From anywhere: a stored session has its folder.
  const elsewhere = join(world.top, 'elsewhere');
  mkdirSync(elsewhere);
  const third = await world.agent({ cwd: elsewhere, resume: first.sessionId });
  assert.equal((await third.runtime.session.info()).cwd, world.cwd);
  await third.close();
  const roots = [world.top];
  const fourth = await world.agent({ cwd: elsewhere, resume: first.sessionId, roots });
  assert.equal((await fourth.messages()).length, 4);
  await assert.rejects(world.agent({ resume: 'none' }), { status: 404, code: 'session_not_found' });
});

test('agent: its folder and its program may be relative', { skip }, async (context) => {
  const world = await World.make(context);
  const near = (path: string) => relative(process.cwd(), path);
  const agent = await world.agent({ cwd: near(world.cwd), binary: near(BINARY) });
  assert.equal((await agent.runtime.session.info()).cwd, world.cwd);
  const { url } = agent.runtime;
  assert.ok(!existsSync(join(world.home, 'server.json')), `expected ${url} not announced`);
});

test('agent: leaving a stream at its done stops no other prompt', { skip }, async (context) => {
  const world = await World.make(context);
  const agent = await world.agent();
  await world.model.push({ text: 'First.' }, { text: 'word '.repeat(20), deltas: 20, delayMs: 20 });
  const { session } = agent.runtime;
  const stream = agent.stream('first');
  let second: ReturnType<typeof agent.prompt> | undefined;
  for await (const event of stream) {
    second ??= event.type === 'turn_start' ? agent.prompt('second') : undefined;
    if (event.type !== 'done') continue;
    await until('the second prompt running', async () => (await session.info()).queued === 0);
    break;
  }
  assert.equal((await second!).reason, 'completed');
});

test('agent: when the runtime dies, what waits for it is told', { skip }, async (context) => {
  const world = await World.make(context);
  const agent = await world.agent();
  await world.model.push({ stall: true });
  const onEvent = (event: { type: unknown }) =>
    void (event.type === 'turn_start' && process.kill(agent.runtime.pid, 'SIGKILL'));
  await assert.rejects(agent.prompt('hang', { onEvent }), (error: unknown) => {
    assert.ok(error instanceof ServerProcessError, String(error));
    assert.match(error.message, /was ended by SIGKILL/);
    assert.equal(error.stderr, '', 'expected no log of requests for last words');
    return true;
  });
  await assert.rejects(agent.messages(), ServerProcessError);
  await agent.close();
});

test(
  'agent: wishes that cannot be met are refused, and nothing is left running',
  { skip },
  async (context) => {
    const world = await World.make(context);
    await assert.rejects(world.agent({ cwd: join(world.top, 'missing') }), /which is no folder/);
    await assert.rejects(world.agent({ allow: ['(('] }), { name: 'ApiError', status: 400 });
  },
);

for (const way of ['is killed', 'forgets']) {
  test(`agent: its runtime does not outlive a parent that ${way}`, { skip }, async (context) => {
    const world = await World.make(context);
    await world.model.push({ stall: true });
    const script = fileURLToPath(new URL('./parent.js', import.meta.url));
    const child = spawn(process.execPath, [script, world.cwd, way], {
      env: world.plainEnv,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (piece) => (out += piece));
    const exited = new Promise((resolve) => child.on('exit', resolve));
    await until('a process id', () => out.includes('\n'));
    const pid = Number(out);
    if (way === 'is killed') {
      assert.ok(alive(pid));
      child.kill('SIGKILL');
    }
    await exited;
    await until('the runtime gone', () => !alive(pid), 10_000);
  });
}
