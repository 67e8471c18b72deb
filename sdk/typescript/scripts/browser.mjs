// Runs the remote client in a real browser against the program and the scripted model.
//
// Needs a build, NARTHEX_BIN, NARTHEX_MODEL_SERVER, and Chromium (CHROMIUM names another one).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';

import { startServer } from '@narthex/sdk';

const LIMIT_MS = 60_000;
const { CHROMIUM = 'chromium', NARTHEX_MODEL_SERVER } = process.env;
assert.ok(NARTHEX_MODEL_SERVER, 'NARTHEX_MODEL_SERVER must name the scripted model server');

// What the page does; it tells its outcome to the server that it came from.
const PAGE = `<!doctype html><script type="module">
import { ApiError, connect } from '/dist/client.js';
const { url, token } = Object.fromEntries(new URLSearchParams(location.search));
const outcome = {};
try {
  const session = await connect({ url, token, attempts: 1 }).createSession({ mode: 'ask' });
  const kinds = new Set();
  const result = await session.run('write', {
    onEvent: (event) => void kinds.add(event.type),
    onPermission: (request) => (request.effect === 'write' ? { kind: 'allow_once' } : { kind: 'deny' }),
  });
  Object.assign(outcome, { reason: result.reason, text: result.text, kinds: [...kinds] });
  await session.run('x'.repeat(26 * 1024 * 1024)).catch((error) => (outcome.refused = error.code));
  await session.close();
} catch (error) {
  outcome.error = error instanceof ApiError ? error.code : String(error);
}
await fetch('/outcome', { method: 'POST', body: JSON.stringify(outcome) });
</script>`;

/** Serves the page and the package from an origin of its own. */
async function site() {
  let tell;
  const outcome = new Promise((resolve) => (tell = resolve));
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    if (pathname === '/outcome') {
      let text = '';
      for await (const piece of request) text += piece;
      response.end();
      tell(JSON.parse(text));
    } else if (pathname.startsWith('/dist/')) {
      response.writeHead(200, { 'content-type': 'text/javascript' });
      response.end(readFileSync(new URL(`../dist/${basename(pathname)}`, import.meta.url)));
    } else {
      response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { origin: `http://127.0.0.1:${server.address().port}`, outcome, server };
}

const top = mkdtempSync(join(tmpdir(), 'narthex-browser-'));
const model = spawn(NARTHEX_MODEL_SERVER, { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface({ input: model.stdout })[Symbol.asyncIterator]();
const push = async (answer) => {
  model.stdin.write(`${JSON.stringify(answer)}\n`);
  assert.equal((await lines.next()).value, '"ok"');
};

/** Opens a page and returns what it tells. */
async function visit(page, { url, token }) {
  const address = `${page.origin}/?${new URLSearchParams({ url, token })}`;
  const profile = mkdtempSync(join(top, 'profile-'));
  const flags = [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    `--user-data-dir=${profile}`,
  ];
  const browser = spawn(CHROMIUM, [...flags, address], { stdio: 'ignore', detached: true });
  const broken = once(browser, 'exit').then(([code]) =>
    assert.fail(`${CHROMIUM} ended with ${code}`),
  );
  const late = new Promise((_, reject) => {
    setTimeout(
      () => reject(new Error(`the page told nothing within ${LIMIT_MS} ms`)),
      LIMIT_MS,
    ).unref();
  });
  try {
    return await Promise.race([page.outcome, broken, late]);
  } finally {
    broken.catch(() => undefined);
    process.kill(-browser.pid, 'SIGKILL');
    await once(browser, 'exit').catch(() => undefined);
  }
}

const listed = await site();
const foreign = await site();
let narthex;
try {
  const { anthropic } = JSON.parse((await lines.next()).value);
  narthex = await startServer({
    cwd: top,
    home: join(top, 'home'),
    model: 'anthropic/claude-sonnet-4-6',
    origins: [listed.origin],
    env: { ANTHROPIC_BASE_URL: anthropic, ANTHROPIC_API_KEY: 'sk-scripted' },
  });
  await push({
    calls: [{ name: 'write_file', args: { path: 'page.txt', content: 'from a page\n' } }],
  });
  await push({ text: 'Written for a page.', deltas: 3 });

  const outcome = await visit(listed, narthex);
  assert.equal(outcome.error, undefined);
  assert.deepEqual([outcome.reason, outcome.text], ['completed', 'Written for a page.']);
  assert.equal(outcome.refused, 'payload_too_large');
  for (const kind of ['text_delta', 'permission_request', 'prompt_finished'])
    assert.ok(outcome.kinds.includes(kind), kind);
  assert.equal(readFileSync(join(top, 'page.txt'), 'utf8'), 'from a page\n');
  console.log('a page of a listed origin: runs a prompt, answers a request, reads a refusal');

  assert.deepEqual(await visit(foreign, narthex), { error: 'unreachable' });
  console.log('a page of another origin: reads nothing');
} finally {
  await narthex?.close();
  model.kill('SIGKILL');
  for (const { server } of [listed, foreign]) {
    server.closeAllConnections();
    server.close();
  }
  rmSync(top, { recursive: true, force: true });
}
