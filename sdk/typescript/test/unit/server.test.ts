import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, before, mock, test } from 'node:test';

import { createAgent, ServerProcessError, startServer } from '@narthex/sdk';

// Stands in for the program: writes down how it was started, then does what BEHAVE says.
const PROGRAM = `#!${process.execPath}
const { writeFileSync } = require('node:fs');
writeFileSync(process.env.REPORT, JSON.stringify({ args: process.argv.slice(2), env: process.env, cwd: process.cwd() }));
const ready = { type: 'ready', url: 'http://127.0.0.1:1', port: 1, pid: process.pid, version: '9.9.9' };
new Function('ready', 'process', process.env.BEHAVE)(ready, process);
`;
const SAY = `process.stdout.write(JSON.stringify(ready) + '\\n');`;
const END_WITH_INPUT = `process.stdin.on('end', () => process.exit(0)).resume();`;

let folder: string;
let binary: string;
let report: string;

before(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'narthex-sdk-')));
  binary = join(folder, 'narthex');
  report = join(folder, 'report.json');
  writeFileSync(binary, PROGRAM);
  chmodSync(binary, 0o755);
});

after(() => rmSync(folder, { recursive: true }));

const behaving = (behave: string) => ({ REPORT: report, BEHAVE: behave });
const started = () =>
  JSON.parse(readFileSync(report, 'utf8')) as {
    args: string[];
    env: Record<string, string>;
    cwd: string;
  };
const alive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test('server: it is started with what was asked for, and the token only in its environment', async () => {
  const server = await startServer({
    binary,
    cwd: folder,
    roots: ['/a', '/b'],
    mode: 'auto-edit',
    model: 'x/y',
    allow: ['one(1)', 'two'],
    deny: ['three'],
    config: '/c.toml',
    appendSystemPrompt: 'be kind',
    permissionTimeoutMs: 0,
    maxSessions: 3,
    origins: ['https://a.example'],
    home: '/home-of-it',
    env: behaving(SAY + END_WITH_INPUT),
    args: ['--more'],
  });
  assert.equal(server.version, '9.9.9');
  const { args, env, cwd } = started();
  assert.deepEqual(args, [
    'serve',
    '--json-ready',
    '--exit-on-stdin-close',
    '--no-announce',
    '--log-level',
    'warn',
    '--port',
    '0',
    '--root',
    '/a',
    '--root',
    '/b',
    '--mode',
    'auto-edit',
    '--model',
    'x/y',
    '--allow',
    'one(1)',
    '--allow',
    'two',
    '--deny',
    'three',
    '--config',
    '/c.toml',
    '--append-system-prompt',
    'be kind',
    '--permission-timeout',
    '0',
    '--max-sessions',
    '3',
    '--origin',
    'https://a.example',
    '--more',
  ]);
  assert.equal(cwd, folder);
  assert.equal(env['NARTHEX_SERVER_TOKEN'], server.token);
  assert.match(server.token, /^[\w-]{43}$/);
  assert.equal(env['NARTHEX_HOME'], '/home-of-it');
  assert.ok(!args.join(' ').includes(server.token));
  assert.ok(alive(server.pid));
  await Promise.all([server.close(), server.close()]);
  assert.ok(!alive(server.pid));
  assert.ok(server.gone.aborted);
});

test('server: relative paths start at the folder of this process', async () => {
  const env = behaving(SAY + END_WITH_INPUT);
  const cwd = relative(process.cwd(), folder);
  const near = relative(process.cwd(), binary);
  const args = ['--log-level', 'debug'];
  const there = { cwd, roots: [cwd], config: join(cwd, 'c.toml'), home: join(cwd, 'home'), args };
  for (const way of [
    { binary: near, env },
    { env: { ...env, NARTHEX_BIN: near } },
    { env: { ...env, NARTHEX_BIN: undefined, PATH: cwd } },
  ]) {
    await (await startServer({ ...there, ...way })).close();
    const report = started();
    const of = (flag: string) => report.args[report.args.indexOf(flag) + 1];
    assert.equal(report.cwd, folder);
    assert.equal(of('--root'), folder);
    assert.equal(of('--config'), join(folder, 'c.toml'));
    assert.equal(report.env['NARTHEX_HOME'], join(folder, 'home'));
    assert.equal(report.args.filter((arg) => arg === '--log-level').length, 1);
    assert.equal(of('--log-level'), 'debug');
  }
});

test('server: the program is looked for in the option, then NARTHEX_BIN, then PATH', async () => {
  const env = behaving(SAY + END_WITH_INPUT);
  await (await startServer({ env: { ...env, NARTHEX_BIN: binary, PATH: '/nowhere' } })).close();
  const path = `/nowhere:${folder}`;
  await (await startServer({ env: { ...env, NARTHEX_BIN: undefined, PATH: path } })).close();
  const missing = { name: 'ServerProcessError' };
  await assert.rejects(
    startServer({ env: { NARTHEX_BIN: undefined, PATH: '/nowhere' } }),
    /NARTHEX_BIN or the option binary/,
  );
  await assert.rejects(
    startServer({ env: { NARTHEX_BIN: '/nowhere/n', PATH: folder } }),
    /NARTHEX_BIN names '\/nowhere\/n'/,
  );
  await assert.rejects(
    startServer({ binary: report, env: { NARTHEX_BIN: binary } }),
    /the option binary names/,
  );
  await assert.rejects(startServer({ binary: folder }), missing);
  await assert.rejects(
    startServer({ binary, cwd: report }),
    /cwd names '.*report.json', which is no folder/,
  );
});

test('server: one that ends at once is told with its words', async () => {
  const env = behaving(`process.stderr.write('the port is taken\\n'); process.exit(2);`);
  const error = await startServer({ binary, env }).then(
    () => assert.fail(),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ServerProcessError);
  assert.equal(error.exitCode, 2);
  assert.match(error.message, /ended with code 2; it said:\nthe port is taken$/);
  assert.equal(error.stderr, 'the port is taken');
});

test('server: only the last lines are shown', async () => {
  const env = behaving(
    `for (let n = 1; n <= 5000; n += 1) process.stderr.write('line ' + n + '\\n');`,
  );
  const error = await startServer({ binary, env }).then(
    () => assert.fail(),
    (reason: ServerProcessError) => reason,
  );
  const lines = error.stderr.split('\n');
  assert.deepEqual([lines.length, lines[0], lines.at(-1)], [10, 'line 4991', 'line 5000']);
});

for (const [name, behave, words] of [
  [
    'whose first line is none of ours',
    `process.stdout.write('hello\\n'); setInterval(() => 0, 1000);`,
    /is no Narthex server: its first line is "hello"/,
  ],
  [
    'that is never ready',
    `setInterval(() => 0, 1000);`,
    /did not say that it is ready within 300 ms/,
  ],
  [
    'that never ends its first line',
    `setInterval(() => process.stdout.write('x'.repeat(50000)), 20);`,
    /is no Narthex server/,
  ],
] as const) {
  test(`server: one ${name} is ended`, async () => {
    await assert.rejects(
      startServer({
        binary,
        env: behaving(behave),
        startTimeoutMs: name.includes('never ready') ? 300 : 5_000,
      }),
      words,
    );
    const { env } = started();
    assert.ok(env);
  });
}

test('server: a program that cannot be started is told', async () => {
  const broken = join(folder, 'broken');
  writeFileSync(broken, '#!/nowhere/interpreter\n');
  chmodSync(broken, 0o755);
  await assert.rejects(startServer({ binary: broken }), /could not be started: spawn .* ENOENT/);
});

test('server: its end is told to whoever waits', async () => {
  const env = behaving(
    `${SAY} setTimeout(() => { process.stderr.write('out of memory\\n'); process.exit(137); }, 50);`,
  );
  const server = await startServer({ binary, env });
  // The server alone keeps no program alive.
  const hold = setTimeout(() => undefined, 10_000);
  await new Promise((resolve) => server.gone.addEventListener('abort', resolve));
  clearTimeout(hold);
  assert.match(String(server.gone.reason), /ended with code 137; it said:\nout of memory/);
  await server.close();
});

test('agent: a runtime that answers nobody is ended', async () => {
  mock.method(Math, 'random', () => 0);
  const env = behaving(SAY + END_WITH_INPUT);
  await assert.rejects(createAgent({ binary, env, cwd: folder }), { code: 'unreachable' });
  assert.deepEqual(started().args.slice(-2), ['--root', folder]);
});
