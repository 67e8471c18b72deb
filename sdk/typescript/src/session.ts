import type { Mode } from './event.js';
import { ApiError } from './errors.js';
import { EventStream, type EventsOptions, type StreamSettings } from './stream.js';
import { type CallOptions, freshKey, type Transport } from './transport.js';
import { run, type RunOptions, turn, type TurnOptions } from './turn.js';
import type { Event } from './event.js';
import type * as wire from './wire.js';

/** Messages that one request asks for while a transcript is read. */
const PAGE = 200;

/** What every call takes. */
export interface CallSettings {
  signal?: AbortSignal;
  /** How long one attempt may take, in milliseconds; 60,000 by default. */
  timeoutMs?: number;
}

/** How to send a prompt. */
export interface SendOptions extends CallSettings {
  attachments?: wire.Attachment[] | undefined;
  /** The same key never starts a second turn; a fresh one by default. */
  idempotencyKey?: string;
}

/** What to stop: what runs, by default. */
export interface InterruptOptions extends CallSettings {
  /** This prompt and no other; one that waits is withdrawn. */
  promptId?: string;
  /** The prompts that wait as well. */
  clearQueue?: boolean;
}

/** How to answer. */
export interface AnswerOptions extends CallSettings {
  /** How long to go on after a failure, in milliseconds, in place of counting attempts. */
  patienceMs?: number;
}

/** Which messages to read. */
export interface MessagesOptions extends CallSettings {
  /** Only those after this one. */
  after?: string;
  /** At most so many; all by default. */
  limit?: number;
}

/** How to go back. */
export interface GoBackOptions extends CallSettings {
  /** Bring back paths too that hold something else than the agent left. */
  force?: boolean;
  /** Only look what would happen. */
  dryRun?: boolean;
}

/** One session of a server. */
export class Session implements AsyncDisposable {
  readonly id: string;
  readonly #transport: Transport;
  readonly #path: string;
  readonly #streams: StreamSettings;

  /** Made by `Client`. */
  constructor(transport: Transport, id: string, streams: StreamSettings) {
    this.id = id;
    this.#transport = transport;
    this.#path = `/sessions/${encodeURIComponent(id)}`;
    this.#streams = streams;
  }

  /** Returns what the session is doing. */
  info(settings: CallSettings = {}): Promise<wire.SessionInfo> {
    return this.#transport.call('GET', this.#path, settings);
  }

  /**
   * Sends a prompt, answers what it asks with the callbacks, and returns its result.
   *
   * A callback that throws interrupts the prompt, which decides against its request, and `run`
   * throws its error.
   */
  run(text: string, options: RunOptions = {}): Promise<wire.RunResult> {
    return run(this, text, options);
  }

  /** Sends a prompt and yields its events. Leaving the loop early interrupts the prompt. */
  stream(
    text: string,
    options: TurnOptions = {},
  ): AsyncGenerator<Event, wire.RunResult, undefined> {
    return turn(this, text, options);
  }

  /** Watches the session; see `EventStream`. */
  events(options: EventsOptions = {}): EventStream {
    const position = async (signal: AbortSignal, timeoutMs: number) => {
      const call = { signal, timeoutMs, attempts: 1 };
      const info = await this.#transport.call<wire.SessionInfo>('GET', this.#path, call);
      return info.lastEventId;
    };
    const source = { path: `${this.#path}/events`, position };
    return new EventStream(this.#transport, source, { ...this.#streams, ...options });
  }

  /** Sends a prompt and does not wait for it. It is accepted once, even if it is sent again. */
  prompt(text: string, options: SendOptions = {}): Promise<wire.PromptAccepted> {
    const { attachments, idempotencyKey = freshKey(), ...settings } = options;
    const body = attachments === undefined ? { text } : { text, attachments };
    return this.#post('/prompt', body, { ...settings, idempotencyKey, repeatable: true });
  }

  /** Stops the running prompt, or the one that is named; tells whether one was stopped. */
  async interrupt(options: InterruptOptions = {}): Promise<boolean> {
    const { promptId, clearQueue, ...settings } = options;
    const call = { ...settings, repeatable: true };
    const answer = await this.#post<wire.Interrupted>('/interrupt', { promptId, clearQueue }, call);
    return answer.interrupted;
  }

  setMode(mode: Mode, settings: CallSettings = {}): Promise<wire.SessionInfo> {
    return this.#post('/mode', { mode }, { ...settings, repeatable: true });
  }

  setModel(model: string, settings: CallSettings = {}): Promise<wire.SessionInfo> {
    return this.#post('/model', { model }, { ...settings, repeatable: true });
  }

  /** Returns the transcript, oldest first. */
  async messages(options: MessagesOptions = {}): Promise<wire.Message[]> {
    const found: wire.Message[] = [];
    for await (const message of this.eachMessage(options)) found.push(message);
    return found;
  }

  /** Yields the transcript, oldest first, page by page. */
  async *eachMessage(options: MessagesOptions = {}): AsyncGenerator<wire.Message, void, undefined> {
    let { after, limit: left = Infinity } = options;
    while (left > 0) {
      const limit = Math.min(PAGE, left);
      const { signal, timeoutMs } = options;
      const call = { query: { after, limit }, signal, timeoutMs };
      const path = `${this.#path}/messages`;
      const page = await this.#transport.call<wire.MessagePage>('GET', path, call);
      yield* page.messages;
      after = page.messages.at(-1)?.id;
      left -= page.messages.length;
      if (!page.hasMore || after === undefined) return;
    }
  }

  /** Returns the requests that wait for an answer. */
  async permissions(settings: CallSettings = {}): Promise<wire.PendingRequest[]> {
    const path = `${this.#path}/permissions`;
    const list = await this.#transport.call<{ requests: wire.PendingRequest[] }>(
      'GET',
      path,
      settings,
    );
    return list.requests;
  }

  /** Answers a request of any kind. */
  async answer(requestId: string, answer: wire.Answer, options: AnswerOptions = {}): Promise<void> {
    const path = `/permissions/${encodeURIComponent(requestId)}`;
    await this.#post(path, answer, { ...options, repeatable: true });
  }

  /** Copies the session, up to a message where one is named, and opens the copy. */
  async fork(options: CallSettings & { messageId?: string } = {}): Promise<Session> {
    const { messageId, ...settings } = options;
    const body = messageId === undefined ? {} : { messageId };
    const call = { ...settings, idempotencyKey: freshKey(), repeatable: true };
    const { id } = await this.#post<wire.SessionInfo>('/fork', body, call);
    return new Session(this.#transport, id, this.#streams);
  }

  /** Returns the points that the session can go back to. */
  async checkpoints(settings: CallSettings = {}): Promise<wire.CheckpointInfo[]> {
    const path = `${this.#path}/checkpoints`;
    const list = await this.#transport.call<{ checkpoints: wire.CheckpointInfo[] }>(
      'GET',
      path,
      settings,
    );
    return list.checkpoints;
  }

  /** Goes back to a checkpoint. */
  rewind(
    checkpointId: string,
    options: GoBackOptions & { scope?: wire.RewindScope } = {},
  ): Promise<wire.RewindResult> {
    const { scope = 'both', force = false, dryRun = false, ...settings } = options;
    return this.#post('/rewind', { checkpointId, scope, force, dryRun }, settings);
  }

  /** Takes back what the newest prompt did to the files. */
  undo(options: GoBackOptions = {}): Promise<wire.UndoResult> {
    const { force = false, dryRun = false, ...settings } = options;
    return this.#post('/undo', { force, dryRun }, settings);
  }

  /** Returns what runs beside the conversation. */
  async tasks(settings: CallSettings = {}): Promise<wire.Task[]> {
    const path = `${this.#path}/tasks`;
    const list = await this.#transport.call<{ tasks: wire.Task[] }>('GET', path, settings);
    return list.tasks;
  }

  /** Stops a task; tells whether it ran. */
  async stopTask(taskId: string, settings: CallSettings = {}): Promise<boolean> {
    const path = `/tasks/${encodeURIComponent(taskId)}/stop`;
    const call = { ...settings, repeatable: true };
    const answer = await this.#post<{ stopped: boolean }>(path, undefined, call);
    return answer.stopped;
  }

  usage(settings: CallSettings = {}): Promise<wire.SessionUsage> {
    return this.#transport.call('GET', `${this.#path}/usage`, settings);
  }

  /** Returns the slash commands that prompts may be. */
  async commands(settings: CallSettings = {}): Promise<wire.SlashCommand[]> {
    const path = `${this.#path}/commands`;
    const list = await this.#transport.call<{ commands: wire.SlashCommand[] }>(
      'GET',
      path,
      settings,
    );
    return list.commands;
  }

  /** Closes the session on the server, which keeps its log. One that is closed already is fine. */
  async close(
    options: CallSettings & { /** Erase the log too. */ purge?: boolean } = {},
  ): Promise<void> {
    const { purge, ...settings } = options;
    try {
      const query = { purge: purge ? 'true' : undefined };
      await this.#transport.call('DELETE', this.#path, { ...settings, query });
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'session_not_found') throw error;
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #post<T>(path: string, body: unknown, options: CallOptions): Promise<T> {
    return this.#transport.call<T>('POST', this.#path + path, { ...options, body });
  }
}
