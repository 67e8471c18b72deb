/// <reference lib="esnext.disposable" preserve="true" />
// The part that runs everywhere: Node, browsers, Deno, Bun. Nothing in here but `fetch`.
import { type CallSettings, Session } from './session.js';
import { EventStream, type EventsOptions, type StreamSettings } from './stream.js';
import { type ConnectOptions, freshKey, Transport } from './transport.js';
import type * as wire from './wire.js';

export type { Asking, Callbacks } from './decisions.js';
export type { PermissionDecision, PlanDecision, QuestionDecision } from './decisions.js';
export { ApiError, type ApiErrorFields } from './errors.js';
export type * from './event.js';
export { type CallSettings, Session } from './session.js';
export type { AnswerOptions, GoBackOptions, InterruptOptions } from './session.js';
export type { MessagesOptions, SendOptions } from './session.js';
export { FRAME_CHARS_MAX, type SseFrame, SseParser } from './sse.js';
export { type ConnectionState, EventStream } from './stream.js';
export type { EventsOptions, StreamSettings } from './stream.js';
export type { ConnectOptions } from './transport.js';
export type { RunOptions, TurnOptions } from './turn.js';
export type * from './wire.js';

/** Which sessions to list. */
export interface SessionsOptions extends CallSettings {
  state?: 'idle' | 'running' | 'waiting' | 'stored';
}

/** What to watch. */
export interface WatchOptions extends Omit<EventsOptions, 'lastEventId'> {
  /** Everything by default. */
  topics?: ('state' | 'interactions' | 'usage')[];
}

/** A server and a token for it. Holds no connection open by itself. */
export class Client {
  readonly #transport: Transport;
  readonly #streams: StreamSettings;

  constructor(options: ConnectOptions) {
    this.#transport = new Transport(options);
    this.#streams = options.streams ?? {};
  }

  /** The server's address. */
  get url(): string {
    return this.#transport.url;
  }

  /** Makes a session, or opens a stored one with `resume`. */
  async createSession(
    options: wire.CreateSession = {},
    settings: CallSettings = {},
  ): Promise<Session> {
    const call = {
      body: options,
      ...settings,
      idempotencyKey: freshKey(),
      repeatable: true,
    };
    const { id } = await this.#transport.call<wire.SessionInfo>('POST', '/sessions', call);
    return this.session(id);
  }

  /** Names a session that is open on the server; asks nothing. */
  session(id: string): Session {
    return new Session(this.#transport, id, this.#streams);
  }

  /** Lists the sessions that are open on the server, or in one state. */
  async sessions(options: SessionsOptions = {}): Promise<wire.SessionInfo[]> {
    const { state, ...settings } = options;
    const call = { query: { state }, ...settings };
    const list = await this.#transport.call<{ sessions: wire.SessionInfo[] }>(
      'GET',
      '/sessions',
      call,
    );
    return list.sessions;
  }

  /** Lists the models that sessions may name. */
  async models(settings: CallSettings = {}): Promise<wire.ModelInfo[]> {
    const list = await this.#transport.call<{ models: wire.ModelInfo[] }>(
      'GET',
      '/models',
      settings,
    );
    return list.models;
  }

  /**
   * Watches all sessions that are open on the server: what they do, what they ask, what they use.
   *
   * Begins with a snapshot, and so does each new connection: what a snapshot does not name is not
   * open any more.
   */
  watch(options: WatchOptions = {}): EventStream<wire.FeedEvent> {
    const { topics, ...rest } = options;
    const path = topics === undefined ? '/events' : `/events?topics=${topics.join(',')}`;
    return new EventStream(this.#transport, { path }, { ...this.#streams, ...rest });
  }

  health(settings: CallSettings = {}): Promise<wire.Health> {
    return this.#transport.call('GET', '/health', settings);
  }
}

/** Makes a client of a running server. Sends nothing yet. */
export function connect(options: ConnectOptions): Client {
  return new Client(options);
}
