// The examples of the seed, run as programs of their own.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { play, QUESTION, shell, skip, World, write } from './world.js';

test('seed: in process', { skip }, async (context) => {
  const world = await World.make(context);
  mkdirSync(join(world.cwd, 'src'));
  await world.model.push(write('src/parser.ts', 'fixed\n'), shell('touch forbidden'), {
    text: 'It is fixed now.',
    deltas: 4,
  });
  const out = await play(world, 'seed/in_process');
  const lines = out.split('\n');
  assert.match(lines[0]!, /^write_file: .*parser\.ts/);
  assert.match(lines[1]!, /^run_shell: .*touch forbidden/);
  assert.equal(lines[2], 'It is fixed now.');
  assert.match(lines[3]!, /^completed, 30 output tokens, \$(\?|[0-9.e-]+)$/);
  assert.equal(readFileSync(join(world.cwd, 'src/parser.ts'), 'utf8'), 'fixed\n');
  assert.ok(!existsSync(join(world.cwd, 'forbidden')));
  const { requests, violations } = await world.model.report();
  assert.deepEqual(violations, []);
  assert.match(JSON.stringify(requests[2]!.body), /read-only please/);
  assert.equal(requests[0]!.body.model, 'claude-sonnet-5-5');
});

test('seed: a stream', { skip }, async (context) => {
  const world = await World.make(context);
  await world.model.push({ text: 'A read me without words.', deltas: 5 });
  assert.equal(await play(world, 'seed/stream'), 'A read me without words.');
});

test('seed: a remote client', { skip }, async (context) => {
  const world = await World.make(context);
  await world.announced();
  await world.model.push(write(), shell('touch forbidden'), QUESTION, {
    text: 'Validated.',
    deltas: 3,
  });
  assert.equal(await play(world, 'seed/remote'), 'Validated.\ncompleted\n');
  assert.equal(readFileSync(join(world.cwd, 'new.txt'), 'utf8'), 'hello\n');
  assert.ok(!existsSync(join(world.cwd, 'forbidden')));
  const { requests, violations } = await world.model.report();
  assert.deepEqual(violations, []);
  assert.match(JSON.stringify(requests[3]!.body), /Postgres/);
});
