// Packs the package, installs the tarball into an empty project without a network, and uses it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const top = mkdtempSync(join(tmpdir(), 'narthex-pack-'));
const project = join(top, 'project');

function run(program, args, cwd) {
  return execFileSync(program, args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

const USE_JS = `
import * as whole from '@narthex/sdk';
import * as client from '@narthex/sdk/client';
import assert from 'node:assert/strict';

for (const name of ['connect', 'Client', 'Session', 'ApiError', 'SseParser']) {
  assert.equal(typeof client[name], 'function', name);
  assert.equal(client[name], whole[name], name);
}
for (const name of ['createAgent', 'startServer']) assert.equal(typeof whole[name], 'function', name);
assert.equal('createAgent' in client, false);
await assert.rejects(whole.createAgent({ binary: '/nowhere/narthex' }), whole.ServerProcessError);
await assert.rejects(
  client.connect({ url: 'http://127.0.0.1:9', token: 't', attempts: 1 }).health(),
  (error) => error instanceof client.ApiError && error.code === 'unreachable',
);
`;

// Without the types of Node: those of the package stand alone, also in a browser's project.
const USE_TS = `
import { connect, type Event } from '@narthex/sdk/client';
import { createAgent } from '@narthex/sdk';

export function show(event: Event): string {
  switch (event.type) {
    case 'text_delta': return event.text;
    case 'permission_request': return event.target.summary;
    case 'replay_gap': return String(event.dropped);
    default: return event.type;
  }
}
export async function use(): Promise<number> {
  await using session = await connect({ url: 'http://127.0.0.1:7420', token: 't' }).createSession();
  await using agent = await createAgent({ onPermission: (req) => ({ kind: req.effect === 'read' ? 'allow_once' : 'deny' }) });
  return (await session.run('x')).usage.outputTokens + (await agent.prompt('x')).turns;
}
`;

try {
  mkdirSync(project);
  const [packed] = JSON.parse(
    run('npm', ['pack', '--json', '--silent', '--pack-destination', top], PACKAGE),
  );
  const files = packed.files.map(({ path }) => path);
  const strange = files.filter(
    (path) => !/^dist\/.*\.(js|d\.ts)$|^(README\.md|LICENSE|package\.json)$/.test(path),
  );
  assert.deepEqual(strange, [], 'expected nothing else in the package');
  for (const path of ['README.md', 'LICENSE', 'dist/index.js', 'dist/client.d.ts']) {
    assert.ok(files.includes(path), `expected ${path} in the package`);
  }

  writeFileSync(
    join(project, 'package.json'),
    JSON.stringify({ name: 'empty', private: true, type: 'module' }),
  );
  run(
    'npm',
    ['install', '--offline', '--no-audit', '--no-fund', '--silent', join(top, packed.filename)],
    project,
  );
  writeFileSync(join(project, 'use.js'), USE_JS);
  run(process.execPath, ['use.js'], project);

  writeFileSync(join(project, 'use.ts'), USE_TS);
  const tsc = join(PACKAGE, 'node_modules/typescript/bin/tsc');
  const options = [
    '--noEmit',
    '--strict',
    '--exactOptionalPropertyTypes',
    '--target',
    'es2022',
    '--lib',
    'es2022,dom',
  ];
  for (const module of [
    ['--module', 'nodenext'],
    ['--module', 'esnext', '--moduleResolution', 'bundler'],
  ]) {
    execFileSync(process.execPath, [tsc, ...options, ...module, 'use.ts'], {
      cwd: project,
      stdio: 'inherit',
    });
  }
  console.log(
    `${packed.filename}: ${files.length} files, ${packed.size} bytes, installed and used`,
  );
} finally {
  rmSync(top, { recursive: true, force: true });
}
