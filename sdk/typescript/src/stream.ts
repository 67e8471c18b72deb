import { ApiError } from './errors.js';
import type { Event } from './event.js';
import { type SseFrame, SseParser } from './sse.js';
import { type Transport, unreachable } from './transport.js';
import { ASKED_MS_MAX, backoffMs, type Linked, linked, sleep } from './waiting.js';

/** Three heartbeats: a stream that has been silent for so long is dead. */
const SILENCE_MS = 45_000;
/** How long to look for a way back without any progress: a restart of a server fits. */
const GIVE_UP_AFTER_MS = 120_000;
/** A connection that still brought something after so long was a good one, be it heartbeats. */
const STEADY_MS = 10_000;

/** What a stream is doing, for people. */
export type ConnectionState =
  | { state: 'open' }
  | { state: 'waiting'; retryInMs: number; error: ApiError }
  | { state: 'closed' };

/** How patient a stream of events is. */
export interface StreamSettings {
  /** Told of each change of the connection. */
  onConnection?: (connection: ConnectionState) => void;
  /** How long to try to get back without progress, in milliseconds; 120,000 by default. */
  giveUpAfterMs?: number;
  /** After how much silence a connection counts as dead, in milliseconds; 45,000 by default. */
  silenceMs?: number;
  /** Characters that one event may have; 32 Mi by default. */
  frameCharsMax?: number;
}

/** How to read a stream of events. */
export interface EventsOptions extends StreamSettings {
  /** Everything after this id; without it, everything after now. */
  lastEventId?: number;
  /** Ends the stream: the iteration throws the signal's reason. */
  signal?: AbortSignal;
}

/** What a stream reads. */
export interface Source {
  path: string;
  /** The id to start after, where the options name none; absent where nothing can be resumed. */
  position?(signal: AbortSignal, limitMs: number): Promise<number>;
}

/**
 * Events as they happen. Those of a session come in order, none twice. Reconnects by itself and
 * resumes where it was; a `replay_gap` says that the server no longer had all of what was missed.
 *
 * Ends when the session is closed, but not when the server stops: that may come back. Throws
 * `ApiError` where the server says no (401, 404), and with code `unreachable` where it is gone for
 * too long. Leaving the loop closes the connection.
 */
export class EventStream<E extends object = Event>
  implements AsyncIterableIterator<E>, AsyncDisposable
{
  readonly #transport: Transport;
  readonly #source: Source;
  readonly #options: EventsOptions;
  readonly #pump: AsyncGenerator<E, undefined>;
  /** Made when something is read: a stream that nobody reads holds on to nothing. */
  #link: Linked | undefined;
  #connection: Connection | undefined;
  #ready: SseFrame[] = [];
  #failures = 0;
  #stuckSinceMs: number | undefined;
  #lastFailure: ApiError | undefined;
  #position: number | undefined;
  #isGarbled = false;
  #isOver = false;
  #isClosed = false;

  constructor(transport: Transport, source: Source, options: EventsOptions = {}) {
    this.#transport = transport;
    this.#source = source;
    this.#options = options;
    this.#position = options.lastEventId;
    this.#pump = this.#run();
  }

  /** The id of the newest event that was yielded: what to resume after. */
  get lastEventId(): number | undefined {
    return this.#position;
  }

  /** How long it tries to get back without progress, in milliseconds. */
  get giveUpAfterMs(): number {
    return this.#options.giveUpAfterMs ?? GIVE_UP_AFTER_MS;
  }

  /** Connects before anything is read, so that nothing which happens from here on is missed. */
  async open(): Promise<void> {
    while (this.#connection === undefined && !this.#isClosed) await this.#connect();
  }

  next(): Promise<IteratorResult<E, undefined>> {
    return this.#pump.next();
  }

  async return(): Promise<IteratorResult<E, undefined>> {
    this.close();
    return this.#pump.return(undefined);
  }

  /** Ends the stream; an iteration that waits ends too. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#drop();
    this.#link?.controller.abort(new DOMException('the stream was closed', 'AbortError'));
    this.#link?.release();
    this.#options.onConnection?.({ state: 'closed' });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  /** Aborted when the stream ends, or is to end. */
  get signal(): AbortSignal {
    this.#link ??= linked(this.#options.signal, this.#transport.ended);
    return this.#link.signal;
  }

  async *#run(): AsyncGenerator<E, undefined> {
    try {
      while (!this.#isClosed) {
        const event = this.#take();
        if (event !== undefined) yield event;
        else if (this.#ready.length === 0) await this.#fill();
      }
    } catch (error) {
      if (!this.#isClosed) throw error;
    } finally {
      this.close();
    }
  }

  /** Takes one frame that has come; nothing where it is none to show. */
  #take(): E | undefined {
    this.signal.throwIfAborted();
    const frame = this.#ready.shift();
    if (frame === undefined) return undefined;
    const id = frame.id !== undefined && /^[0-9]+$/.test(frame.id) ? Number(frame.id) : undefined;
    // Frames leave the server in the order of their ids: what is not newer was yielded before.
    if (id !== undefined && this.#position !== undefined && id <= this.#position) return undefined;
    let event: E & { type: string };
    try {
      event = parse<E>(frame.data);
    } catch (error) {
      // It may have been broken on its way: once.
      if (this.#isGarbled) throw error;
      this.#ready = [];
      this.#lose(error);
      this.#isGarbled = true;
      return undefined;
    }
    if (id !== undefined) {
      this.#position = id;
      this.#isGarbled = false;
    }
    if (id !== undefined || this.#source.position === undefined) this.#progress();
    const { type, reason } = event as { type: string; reason?: unknown };
    // A log may hold the end of a former life: it is the end where nothing follows.
    this.#isOver = type === 'session_closed' && reason !== 'shutdown';
    return event;
  }

  async #fill(): Promise<void> {
    await this.open();
    const connection = this.#connection;
    if (connection === undefined) return;
    try {
      const frames = await connection.read();
      if (frames !== undefined) this.#ready = frames;
      else if (this.#isOver) this.close();
      else this.#lose(new Error('the stream ended'));
    } catch (error) {
      this.signal.throwIfAborted();
      if (error instanceof ApiError && error.code === 'frame_too_large') throw error;
      this.#lose(error);
    }
  }

  async #connect(): Promise<void> {
    const signal = this.signal;
    signal.throwIfAborted();
    this.#stuckSinceMs ??= Date.now();
    if (this.#failures > 0) await this.#wait();
    const silenceMs = this.#options.silenceMs ?? SILENCE_MS;
    try {
      const limitMs = () => Math.max(1, Math.min(silenceMs, this.#leftMs));
      this.#position ??= await this.#source.position?.(signal, limitMs());
      const lastEventId = this.#position;
      const open = (own: AbortSignal) =>
        this.#transport.open(this.#source.path, { lastEventId, signal: own });
      const parser = new SseParser(this.#options);
      const limits = { silenceMs, openMs: limitMs(), signal };
      this.#connection = await Connection.open(open, parser, limits);
      this.#options.onConnection?.({ state: 'open' });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ApiError && !error.retryable && error.status !== 500) {
        if (error.status !== 404 || !this.#isOver) throw error;
        this.close();
        return;
      }
      this.#lose(error);
    }
  }

  #progress(): void {
    this.#failures = 0;
    this.#stuckSinceMs = undefined;
  }

  /** Notes that the connection is gone. */
  #lose(cause: unknown): void {
    if (this.#connection?.isSteady) {
      this.#progress();
      this.#isGarbled = false;
    }
    this.#drop();
    this.#failures += 1;
    this.#stuckSinceMs ??= Date.now();
    this.#lastFailure = cause instanceof ApiError ? cause : unreachable(cause);
  }

  async #wait(): Promise<void> {
    const error = this.#lastFailure ?? unreachable('nothing answered');
    const retryInMs = error.retryAfterMs ?? backoffMs(this.#failures);
    if (retryInMs > ASKED_MS_MAX) throw error;
    if (retryInMs >= this.#leftMs) {
      const words = `no way back to the stream of events within ${this.giveUpAfterMs} ms`;
      const code = error.status === 0 ? error.code : 'unreachable';
      const message = `${words}: ${error.message}`;
      throw new ApiError({ status: 0, code, message, cause: error });
    }
    this.#options.onConnection?.({ state: 'waiting', retryInMs, error });
    await sleep(retryInMs, this.signal);
  }

  /** How long it may still go on without progress, in milliseconds. */
  get #leftMs(): number {
    const now = Date.now();
    return this.giveUpAfterMs - (now - (this.#stuckSinceMs ?? now));
  }

  #drop(): void {
    this.#connection?.close();
    this.#connection = undefined;
  }
}

/** One connection: bytes in, frames out, dead after too much silence. */
class Connection {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #parser: SseParser;
  readonly #link: Linked;
  readonly #silenceMs: number;
  readonly #sinceMs = Date.now();
  #lastMs = this.#sinceMs;

  static async open(
    start: (signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>,
    parser: SseParser,
    limits: { silenceMs: number; openMs: number; signal: AbortSignal },
  ): Promise<Connection> {
    const link = linked(limits.signal);
    try {
      const body = await watched(start(link.signal), link, limits.openMs);
      return new Connection(body.getReader(), parser, link, limits.silenceMs);
    } catch (error) {
      link.release();
      throw error;
    }
  }

  private constructor(
    reader: ReadableStreamDefaultReader<Uint8Array>,
    parser: SseParser,
    link: Linked,
    silenceMs: number,
  ) {
    this.#reader = reader;
    this.#parser = parser;
    this.#link = link;
    this.#silenceMs = silenceMs;
  }

  get isSteady(): boolean {
    return this.#lastMs - this.#sinceMs >= STEADY_MS;
  }

  /** Returns the frames that the next bytes complete; nothing at the end. */
  async read(): Promise<SseFrame[] | undefined> {
    const { done, value } = await watched(this.#reader.read(), this.#link, this.#silenceMs);
    this.#lastMs = Date.now();
    return done ? undefined : this.#parser.push(value);
  }

  close(): void {
    this.#link.release();
    this.#reader.cancel().catch(() => undefined);
    this.#link.controller.abort(new DOMException('the connection was closed', 'AbortError'));
  }
}

/** Waits for something, and aborts what it belongs to after too much silence. */
async function watched<T>(work: Promise<T>, link: Linked, silenceMs: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silent = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = unreachable(`nothing came for ${silenceMs} ms`);
      reject(error);
      link.controller.abort(error);
    }, silenceMs);
  });
  try {
    return await Promise.race([work, silent]);
  } finally {
    clearTimeout(timer);
  }
}

function parse<E>(data: string): E & { type: string } {
  try {
    const value = JSON.parse(data) as { type?: unknown } | null;
    if (typeof value?.type === 'string') return value as E & { type: string };
  } catch {
    // Said below.
  }
  const message = `what came is no event: '${data.slice(0, 80)}'`;
  throw new ApiError({ status: 0, code: 'bad_answer', message });
}
