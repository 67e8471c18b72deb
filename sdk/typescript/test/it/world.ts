// The real program, a scripted model, and folders of their own, for one test.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync } from 'node:fs';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

import {
  type Agent,
  type AgentOptions,
  createAgent,
  type Environment,
  type Server,
  type ServerOptions,
  startServer,
} from '@narthex/sdk';

export const BINARY = process.env['NARTHEX_BIN'] ?? '';
export const MODEL_SERVER = process.env['NARTHEX_MODEL_SERVER'] ?? '';
const isComplete = BINARY !== '' && MODEL_SERVER !== '';

/** Given to each test: `false`, or why it cannot run. */
export const skip: string | false = isComplete
  ? false
  : 'NARTHEX_BIN and NARTHEX_MODEL_SERVER must name the program and the scripted model server';
if (!isComplete) console.error(`\n!!! NOT TESTED AGAINST THE PROGRAM: ${skip}\n`);

export const MODEL = 'anthropic/claude-sonnet-4-6';

/** One answer of the model, as crates/testkit/src/model_server/scenario.rs reads it. */
export interface Answer {
  text?: string;
  thinking?: string;
  calls?: { name: string; args: unknown }[];
  deltas?: number;
  delayMs?: number;
  stall?: boolean;
  status?: number;
  error?: string;
}

/** The scripted model server. */
class Model {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #reader: Interface;
  base = '';

  constructor() {
    this.#child = spawn(MODEL_SERVER, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#reader = createInterface({ input: this.#child.stdout! });
    this.#lines = this.#reader[Symbol.asyncIterator]();
  }

  async #line(): Promise<any> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('the model server is gone');
    return JSON.parse(value);
  }

  async start(): Promise<void> {
    this.base = (await this.#line()).anthropic;
  }

  async push(...answers: Answer[]): Promise<void> {
    for (const answer of answers) {
      this.#child.stdin!.write(`${JSON.stringify(answer)}\n`);
      assert.equal(await this.#line(), 'ok');
    }
  }

  /** Ends it and returns what it saw. */
  async report(): Promise<{
    requests: { body: any }[];
    violations: unknown[];
    unscripted: number;
  }> {
    this.#child.stdin!.end();
    const report = await this.#line();
    this.#reader.close();
    return report;
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }
}

export class World {
  readonly top = realpathSync(mkdtempSync(join(tmpdir(), 'narthex-sdk-')));
  readonly cwd = join(this.top, 'work');
  readonly home = join(this.top, '.narthex');
  readonly model = new Model();

  static async make(context: TestContext): Promise<World> {
    const world = new World();
    context.after(() => world.#end());
    mkdirSync(world.cwd);
    await world.model.start();
    return world;
  }

  /** An environment in which nothing of this machine is left but what programs need. */
  get env(): Environment {
    const kept = new Set(['PATH', 'LANG', 'LC_ALL', 'TMPDIR', 'RUST_BACKTRACE']);
    const without = Object.keys(process.env).filter((name) => !kept.has(name));
    return {
      ...Object.fromEntries(without.map((name) => [name, undefined])),
      HOME: this.top,
      NARTHEX_HOME: this.home,
      NARTHEX_BIN: BINARY,
      NARTHEX_MODEL: MODEL,
      ANTHROPIC_BASE_URL: this.model.base,
      ANTHROPIC_API_KEY: 'sk-scripted',
      NO_PROXY: '*',
    };
  }

  /** The environment without the names that are taken away. */
  get plainEnv(): NodeJS.ProcessEnv {
    return Object.fromEntries(Object.entries(this.env).filter(([, value]) => value !== undefined));
  }

  readonly #started: { close(): Promise<void> }[] = [];

  async agent(options: AgentOptions = {}): Promise<Agent> {
    const agent = await createAgent({ cwd: this.cwd, mode: 'ask', env: this.env, ...options });
    this.#started.push(agent);
    return agent;
  }

  async serve(options: ServerOptions = {}): Promise<Server> {
    const server = await startServer({ cwd: this.cwd, env: this.env, ...options });
    this.#started.push(server);
    return server;
  }

  /** Starts a server as people do at a terminal: it writes `server.json`. */
  async announced(): Promise<void> {
    const child = spawn(BINARY, ['serve', '--port', '0'], {
      cwd: this.cwd,
      env: this.plainEnv,
      stdio: ['ignore', 'ignore', 'ignore'],
    });
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    this.#started.push({ close: () => (child.kill(), exited) });
    await until('server.json', () => existsSync(join(this.home, 'server.json')));
  }

  async #end(): Promise<void> {
    await Promise.all(this.#started.map((it) => it.close()));
    this.model.stop();
    rmSync(this.top, { recursive: true, force: true });
  }
}

/** Runs a compiled example as a program of its own, in the folder of a world; returns its output. */
export async function play(world: World, name: string, env: Environment = {}): Promise<string> {
  const source = readFileSync(new URL(`./${name}.js`, import.meta.url), 'utf8');
  const folder = /'\/path\/to\/(repo|folder)'|'\/home\/me\/src\/app'/g;
  const text = source.replaceAll(folder, JSON.stringify(world.cwd));
  // Beside the tests, where the package's own name resolves.
  const path = fileURLToPath(new URL(`./${name}.${process.pid}.js`, import.meta.url));
  writeFileSync(path, text);
  try {
    const child = spawn(process.execPath, [path], {
      env: { ...world.plainEnv, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let out = '';
    let err = '';
    child.stdout.setEncoding('utf8').on('data', (piece) => (out += piece));
    child.stderr.setEncoding('utf8').on('data', (piece) => (err += piece));
    const code = await new Promise((resolve) => child.on('close', resolve));
    assert.equal(code, 0, err);
    return out;
  } finally {
    rmSync(path);
  }
}

export function write(path = 'new.txt', content = 'hello\n'): Answer {
  return { calls: [{ name: 'write_file', args: { path, content } }] };
}

export function shell(command: string): Answer {
  return { calls: [{ name: 'run_shell', args: { command } }] };
}

export const QUESTION: Answer = {
  calls: [
    {
      name: 'ask_question',
      args: {
        question: 'Which database?',
        options: [
          { id: 'pg', label: 'Postgres' },
          { id: 'my', label: 'MySQL' },
        ],
      },
    },
  ],
};

export const PLAN: Answer = {
  calls: [{ name: 'exit_plan', args: { plan: '# Plan\n\n1. write the file\n' } }],
};

/** Waits until something is true. */
export async function until(
  what: string,
  test: () => boolean | Promise<boolean>,
  limitMs = 20_000,
): Promise<void> {
  const end = Date.now() + limitMs;
  while (!(await test())) {
    if (Date.now() > end) throw new Error(`expected ${what} within ${limitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
