import { resolve } from 'node:path';

import { Client } from './client.js';
import type { Event, Mode } from './event.js';
import type { Callbacks } from './decisions.js';
import { type Environment, folderOfSession, type Server, startServer } from './server.js';
import type { MessagesOptions, Session } from './session.js';
import type { RunOptions, TurnOptions } from './turn.js';
import type { Message, RunResult } from './wire.js';

/** How to make an agent of one's own. Relative paths start at the folder of this process. */
export interface AgentOptions extends Callbacks {
  /** The folder that it works in; that of this process by default. Unused with `resume`. */
  cwd?: string;
  /** The folders that it may work in; by default `cwd`, or the folder of the stored session. */
  roots?: string[];
  /** `provider/model`; what the settings say by default. */
  model?: string;
  /** What runs without asking; what the settings say by default. */
  mode?: Mode;
  /** The id of a stored session to go on with, in the folder that it has. */
  resume?: string;
  title?: string;
  appendSystemPrompt?: string;
  /** Rules, for example `run_shell(npm test *)`. */
  allow?: string[];
  deny?: string[];
  /** The program; by default what `NARTHEX_BIN` names, else `narthex` on `PATH`. */
  binary?: string;
  /** Where settings and sessions are kept, in place of the user's own. */
  home?: string;
  /** A settings file. */
  config?: string;
  /** After how long an unanswered request is refused, in milliseconds; 0 is never. */
  permissionTimeoutMs?: number;
  /** Added to the environment of this process. */
  env?: Environment;
  /** How long the start may take, in milliseconds; 30,000 by default. */
  startTimeoutMs?: number;
}

/** How to run a prompt of an agent; callbacks in here come before those of the agent. */
export type PromptOptions = RunOptions;
export type StreamOptions = TurnOptions;

/** The program behind an agent. */
export interface AgentRuntime {
  readonly url: string;
  readonly pid: number;
  readonly version: string;
  readonly client: Client;
  readonly session: Session;
}

/**
 * An agent with one session, in a runtime of its own that ends with it and with this process.
 *
 * When the runtime dies, everything that waits for it throws a `ServerProcessError` with the last
 * lines that it said.
 */
export class Agent implements AsyncDisposable {
  readonly sessionId: string;
  readonly runtime: AgentRuntime;
  readonly #server: Server;
  readonly #session: Session;
  readonly #callbacks: Callbacks;

  /** Made by `createAgent`. */
  constructor(server: Server, client: Client, session: Session, callbacks: Callbacks) {
    const { url, pid, version } = server;
    this.sessionId = session.id;
    this.runtime = { url, pid, version, client, session };
    this.#server = server;
    this.#session = session;
    this.#callbacks = callbacks;
  }

  /** Runs a prompt to its end. */
  prompt(text: string, options: PromptOptions = {}): Promise<RunResult> {
    return this.#session.run(text, { ...this.#callbacks, ...options });
  }

  /** Runs a prompt and yields its events. Leaving the loop early interrupts the prompt. */
  stream(text: string, options: StreamOptions = {}): AsyncGenerator<Event, RunResult, undefined> {
    return this.#session.stream(text, { ...this.#callbacks, ...options });
  }

  /** Stops the running prompt; tells whether one ran. */
  interrupt(): Promise<boolean> {
    return this.#session.interrupt();
  }

  async setMode(mode: Mode): Promise<void> {
    await this.#session.setMode(mode);
  }

  async setModel(model: string): Promise<void> {
    await this.#session.setModel(model);
  }

  /** Returns the transcript, oldest first. */
  messages(options: MessagesOptions = {}): Promise<Message[]> {
    return this.#session.messages(options);
  }

  /** Ends the runtime and waits for it. The session stays stored: `resume` goes on with it. */
  close(): Promise<void> {
    return this.#server.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Starts a runtime and opens a session in it. Without `onPermission` such calls are denied. */
export async function createAgent(options: AgentOptions = {}): Promise<Agent> {
  const { onPermission, onQuestion, onPlan, ...rest } = options;
  const { model, mode, resume: stored, title, appendSystemPrompt, allow, deny, ...start } = rest;
  const cwd = resolve(options.cwd ?? '.');
  let { roots } = options;
  if (stored !== undefined) roots ??= [(await folderOfSession(start, stored)) ?? cwd];
  const server = await startServer({ ...start, cwd, roots: roots ?? [cwd] });
  try {
    const { url, token, gone } = server;
    const client = new Client({ url, token, signal: gone });
    // A stored session has its folder, and refuses another.
    const place = stored === undefined ? { cwd } : { resume: stored };
    const wishes = { ...place, model, mode, title, appendSystemPrompt, allow, deny };
    const given = Object.entries(wishes).filter(([, value]) => value !== undefined);
    const session = await client.createSession(Object.fromEntries(given));
    return new Agent(server, client, session, { onPermission, onQuestion, onPlan });
  } catch (error) {
    await server.close();
    throw error;
  }
}
