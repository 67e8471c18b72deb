// The program in examples/typescript, installed as its README says, in a copy of its folder.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { shell, skip, World } from './world.js';

const SDK = fileURLToPath(new URL('../..', import.meta.url));
const EXAMPLE = join(SDK, '../../examples/typescript');

test('example: a review, with questions at the terminal', { skip }, async (context) => {
  const world = await World.make(context);
  const copy = join(world.top, 'example');
  mkdirSync(copy);
  cpSync(join(EXAMPLE, 'review.mjs'), join(copy, 'review.mjs'));
  const manifest = readFileSync(join(EXAMPLE, 'package.json'), 'utf8');
  writeFileSync(
    join(copy, 'package.json'),
    manifest.replace('file:../../sdk/typescript', `file:${SDK}`),
  );
  execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', '--silent'], {
    cwd: copy,
    stdio: 'inherit',
  });

  writeFileSync(join(world.cwd, 'notes.txt'), 'buy milk\n');
  await world.model.push(
    { calls: [{ name: 'read_file', args: { path: 'notes.txt' } }] },
    shell('touch one'),
    shell('touch two'),
    { text: 'A shopping list.', deltas: 3 },
  );
  const child = spawn(process.execPath, ['review.mjs', relative(copy, world.cwd)], {
    cwd: copy,
    env: world.plainEnv,
  });
  let out = '';
  let err = '';
  const answers = ['y', 'leave it alone'];
  let asked = 0;
  child.stdout.setEncoding('utf8').on('data', (piece) => (out += piece));
  child.stderr.setEncoding('utf8').on('data', (piece) => {
    err += piece;
    const questions = err.split('Allow it?').length - 1;
    for (; asked < questions; asked += 1) child.stdin.write(`${answers[asked] ?? ''}\n`);
  });
  const code = await new Promise((resolve) => child.on('close', resolve));
  assert.equal(code, 0, err);
  assert.equal(out, 'A shopping list.\n');
  assert.match(err, /· read_file .*notes\.txt/);
  assert.match(err, /run_shell wants to execute: .*touch one/);
  assert.match(err, /completed after 4 steps, 40 tokens written/);
  assert.ok(existsSync(join(world.cwd, 'one')) && !existsSync(join(world.cwd, 'two')));
  const { requests, violations } = await world.model.report();
  assert.deepEqual(violations, []);
  assert.match(JSON.stringify(requests[1]!.body), /buy milk/);
  assert.match(JSON.stringify(requests[3]!.body), /leave it alone/);
});
