// The examples of README.md, run as programs of their own.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { PLAN, play, QUESTION, shell, skip, World, write } from './world.js';

test('readme: an agent', { skip }, async (context) => {
  const world = await World.make(context);
  await world.model.push(write('haiku.txt', 'still pond\n'), shell('cat haiku.txt > copy'), {
    text: 'Written.',
  });
  await world.model.push({ text: 'It is about a pond.', deltas: 3 });
  const lines = (await play(world, 'readme/agent')).split('\n');
  assert.match(lines[0]!, /^write_file \(write\): .*haiku\.txt/);
  assert.match(lines[1]!, /^run_shell \(execute\): /);
  assert.deepEqual(lines.slice(2), ['completed: Written. (30 tokens)', 'It is about a pond.']);
  assert.equal(readFileSync(join(world.cwd, 'haiku.txt'), 'utf8'), 'still pond\n');
  assert.ok(!existsSync(join(world.cwd, 'copy')));
});

test('readme: a server and a client', { skip }, async (context) => {
  const world = await World.make(context);
  await world.model.push(QUESTION, PLAN, write(), { text: 'As planned.' });
  const out = await play(world, 'readme/remote');
  assert.equal(out, '# Plan\n\n1. write the file\ncompleted: As planned.\n');
  assert.ok(existsSync(join(world.cwd, 'new.txt')));
});

test('readme: events', { skip }, async (context) => {
  const world = await World.make(context);
  const { url, token } = await world.serve();
  await world.model.push({ text: 'Hello!' });
  const out = await play(world, 'readme/events', { NARTHEX_URL: url, NARTHEX_TOKEN: token });
  assert.match(out, /^(Hello!)? \(completed\)\n$/);
});
