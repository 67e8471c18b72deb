import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { resolve } from 'node:path';

import { findBinary } from './binary.js';
import { ServerProcessError } from './errors.js';
import type { Mode } from './event.js';

/** How long a start may take, in milliseconds: a large store on a slow disk is opened. */
const START_MS = 30_000;
/** How long a graceful stop may take before the process is killed, in milliseconds. */
const STOP_MS = 10_000;
/** Characters of standard error that are kept for errors: some fifty lines. */
const STDERR_CHARS_MAX = 8_192;
/** How long to wait for the end of standard error after that of the process, in milliseconds. */
const STDERR_MS = 200;
/** Lines of standard error that an error shows. */
const STDERR_LINES = 10;
/** Bytes of a stored session as the program shows it, its conversation included. */
const SHOWN_BYTES_MAX = 256 * 1024 * 1024;
/** Characters of the first line: the ready record is a few hundred. */
const READY_CHARS_MAX = 65_536;

/** Environment variables; `undefined` takes one away. */
export type Environment = Record<string, string | undefined>;

/** How to start a server of one's own. Relative paths start at the folder of this process. */
export interface ServerOptions {
  /** The program; by default what `NARTHEX_BIN` names, else `narthex` on `PATH`. */
  binary?: string;
  /** The folder that the server starts in; that of this process by default. */
  cwd?: string;
  /** The folders that sessions may work in; `cwd` by default. */
  roots?: string[];
  /** 0, the default, takes any free port. */
  port?: number;
  /** The address to bind; loopback by default. */
  host?: string;
  /** Permits an address that is not loopback. */
  allowRemote?: boolean;
  /** The bearer token; a fresh one by default. */
  token?: string;
  /** The mode of sessions that name none. */
  mode?: Mode;
  /** The model of sessions that name none. */
  model?: string;
  /** Rules of every session. */
  allow?: string[];
  deny?: string[];
  /** A settings file. */
  config?: string;
  appendSystemPrompt?: string;
  /** After how long an unanswered request is refused, in milliseconds; 0 is never. */
  permissionTimeoutMs?: number;
  maxSessions?: number;
  /** Web origins whose pages may ask, for example `https://app.example.com`. */
  origins?: string[];
  /** Where settings and sessions are kept, in place of the user's own. */
  home?: string;
  /** Added to the environment of this process. */
  env?: Environment;
  /** Further arguments, as the command line takes them. */
  args?: string[];
  /** How long the start may take, in milliseconds; 30,000 by default. */
  startTimeoutMs?: number;
}

/** A server that this process started. It ends with this process, however that ends. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly pid: number;
  readonly version: string;
  /** Aborted when the process is gone; where nobody closed it, its reason tells why. */
  readonly gone: AbortSignal;
  /** Stops the server gracefully, or at once after ten seconds, and waits for its end. */
  close(): Promise<void>;
}

/** Starts `narthex serve` and waits until it can be asked. */
export async function startServer(options: ServerOptions = {}): Promise<Server> {
  const token = options.token ?? randomBytes(32).toString('base64url');
  const env = { ...environment(options), NARTHEX_SERVER_TOKEN: token };
  const program = findBinary(options.binary, env);
  checkFolder(options.cwd);
  const child = spawn(program, commandLine(options), {
    cwd: options.cwd,
    env: env as NodeJS.ProcessEnv,
    stdio: ['pipe', 'pipe', 'pipe'],
    // Ctrl-C at a terminal reaches this process alone, which then decides when to stop it.
    detached: process.platform !== 'win32',
    windowsHide: true,
  });
  const running = new Running(child, program);
  const ready = await running.ready(options.startTimeoutMs ?? START_MS);
  return {
    url: ready.url,
    token,
    pid: ready.pid,
    version: ready.version,
    gone: running.gone,
    close: () => running.close(),
    [Symbol.asyncDispose]: () => running.close(),
  };
}

function environment(options: ServerOptions): Environment {
  const env: Environment = { ...process.env, ...options.env };
  if (options.home !== undefined) env['NARTHEX_HOME'] = resolve(options.home);
  return env;
}

/** Returns the folder of a stored session; nothing where the program does not know it. */
export async function folderOfSession(
  options: ServerOptions,
  sessionId: string,
): Promise<string | undefined> {
  const env = environment(options);
  const program = findBinary(options.binary, env);
  const args = ['sessions', 'show', '--output-format', 'json', '--', sessionId];
  const limits = { timeout: options.startTimeoutMs ?? START_MS, maxBuffer: SHOWN_BYTES_MAX };
  const out = await new Promise<string>((resolve) => {
    const settings = { ...limits, env: env as NodeJS.ProcessEnv, windowsHide: true };
    // Where this fails the server says best what is wrong with the session.
    execFile(program, args, settings, (_, stdout) => resolve(stdout)).stdin?.end();
  });
  try {
    const { cwd } = JSON.parse(out) as { cwd?: unknown };
    return typeof cwd === 'string' ? cwd : undefined;
  } catch {
    return undefined;
  }
}

/** Else the system says that the program is not there. */
function checkFolder(cwd: string | undefined): void {
  if (cwd === undefined || statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) return;
  throw new ServerProcessError(`cwd names '${cwd}', which is no folder`);
}

function commandLine(options: ServerOptions): string[] {
  // `server.json` is for the server that everybody shares.
  const args = ['serve', '--json-ready', '--exit-on-stdin-close', '--no-announce'];
  const { args: more = [] } = options;
  // Its last lines are to say what went wrong, not who has asked for what.
  if (!more.some((arg) => arg.startsWith('--log-level'))) args.push('--log-level', 'warn');
  const add = (flag: string, ...values: (string | number | undefined)[]) => {
    for (const value of values) if (value !== undefined) args.push(flag, String(value));
  };
  add('--port', options.port ?? 0);
  add('--root', ...(options.roots ?? []).map((root) => resolve(root)));
  add('--host', options.host);
  if (options.allowRemote) args.push('--allow-remote');
  add('--mode', options.mode);
  add('--model', options.model);
  add('--allow', ...(options.allow ?? []));
  add('--deny', ...(options.deny ?? []));
  add('--config', options.config === undefined ? undefined : resolve(options.config));
  add('--append-system-prompt', options.appendSystemPrompt);
  add('--permission-timeout', options.permissionTimeoutMs);
  add('--max-sessions', options.maxSessions);
  add('--origin', ...(options.origins ?? []));
  return [...args, ...more];
}

interface Ready {
  url: string;
  pid: number;
  version: string;
}

/** The process, from its start to its end. */
class Running {
  readonly #child: ChildProcess;
  readonly #program: string;
  readonly #gone = new AbortController();
  readonly #exited: Promise<void>;
  #stderr = '';
  #isClosing = false;
  #closed: Promise<void> | undefined;

  constructor(child: ChildProcess, program: string) {
    this.#child = child;
    this.#program = program;
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_CHARS_MAX);
    });
    // A pipe that broke is told by the end of the process.
    child.stdin?.on('error', () => undefined);
    this.#exited = new Promise((resolve) => {
      const end = (code: number | null, how: string) => {
        if (!this.#gone.signal.aborted) this.#gone.abort(this.#error(how, code));
        resolve();
      };
      child.once('error', (error) => end(null, `could not be started: ${error.message}`));
      // `close` comes after the last of standard error was read, unless something else holds it.
      let timer: ReturnType<typeof setTimeout> | undefined;
      child.once('exit', (code, signal) => {
        timer = setTimeout(() => end(code, ended(code, signal)), STDERR_MS);
      });
      child.once('close', (code, signal) => {
        clearTimeout(timer);
        end(code, ended(code, signal));
      });
    });
  }

  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Waits for the first line, then lets this process end without a close. */
  async ready(limitMs: number): Promise<Ready> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      const line = await new Promise<string>((resolve, reject) => {
        const late = `did not say that it is ready within ${limitMs} ms`;
        timer = setTimeout(() => reject(this.#error(late, null)), limitMs);
        this.gone.addEventListener('abort', () => reject(this.gone.reason), { once: true });
        let text = '';
        this.#child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
          // Whatever comes after the first line is read and dropped, so that nothing blocks.
          if (text.includes('\n')) return;
          text += piece;
          if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')));
          else if (text.length > READY_CHARS_MAX) resolve(text);
        });
      });
      const ready = this.#parse(line);
      this.#loosen();
      return ready;
    } catch (error) {
      await this.close(0);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends its input, which stops it gracefully; kills it after `limitMs`. */
  close(limitMs: number = STOP_MS): Promise<void> {
    this.#closed ??= this.#close(limitMs);
    return this.#closed;
  }

  async #close(limitMs: number): Promise<void> {
    this.#isClosing = true;
    this.#child.ref();
    this.#child.stdin?.end();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), limitMs);
    await this.#exited;
    clearTimeout(timer);
  }

  /** A child that is still there must not keep a program alive that has nothing left to do. */
  #loosen(): void {
    this.#child.unref();
    for (const pipe of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) {
      if (pipe !== null && 'unref' in pipe) (pipe as { unref(): void }).unref();
    }
  }

  #parse(line: string): Ready {
    try {
      const value = JSON.parse(line) as Partial<Ready> & { type?: unknown };
      const { url, pid, version } = value;
      if (value.type === 'ready' && typeof url === 'string' && typeof pid === 'number') {
        return { url, pid, version: String(version ?? '') };
      }
    } catch {
      // Said below.
    }
    const shown = JSON.stringify(line.slice(0, 200));
    throw this.#error(`is no Narthex server: its first line is ${shown}`, null);
  }

  #error(how: string, exitCode: number | null): ServerProcessError {
    if (this.#isClosing) return new ServerProcessError('the server was closed', { exitCode });
    const stderr = this.#stderr.trimEnd().split('\n').slice(-STDERR_LINES).join('\n');
    const said = stderr === '' ? '' : `; it said:\n${stderr}`;
    return new ServerProcessError(`'${this.#program}' ${how}${said}`, { exitCode, stderr });
  }
}

function ended(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `ended with code ${code}` : `was ended by ${signal}`;
}
