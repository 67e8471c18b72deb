import { Asker } from './asker.js';
import type { Callbacks } from './decisions.js';
import { ApiError } from './errors.js';
import type { Event } from './event.js';
import type { Session } from './session.js';
import type { EventStream } from './stream.js';
import { freshKey } from './transport.js';
import { follow, linked, until } from './waiting.js';
import type { Attachment, PromptAccepted, RunResult } from './wire.js';

/** How long each attempt to tell the server that a prompt was left may take, in milliseconds. */
const LEAVE_MS = 5_000;

/** How to run one prompt. */
export interface TurnOptions extends Callbacks {
  /** Interrupts the prompt on the server; what waits for it throws the signal's reason. */
  signal?: AbortSignal | undefined;
  attachments?: Attachment[] | undefined;
}

/** How to run one prompt, with somebody who listens. */
export interface RunOptions extends TurnOptions {
  /** Gets each event of the prompt, one after the other; the next one waits for its promise. */
  onEvent?: ((event: Event) => void | Promise<void>) | undefined;
}

/** Runs a prompt to its end. */
export async function run(session: Session, text: string, options: RunOptions): Promise<RunResult> {
  const events = turn(session, text, options);
  try {
    for (;;) {
      const step = await events.next();
      if (step.done) return step.value;
      await options.onEvent?.(step.value);
    }
  } finally {
    await events.return(undefined as never);
  }
}

/**
 * Runs a prompt and yields its events, from `prompt_started` to `prompt_finished`.
 *
 * Leaving before its `done` interrupts the prompt and no other; one that waits is withdrawn.
 */
export async function* turn(
  session: Session,
  text: string,
  options: TurnOptions,
): AsyncGenerator<Event, RunResult, undefined> {
  const link = linked(options.signal);
  const { signal } = link;
  const stream = session.events({ signal });
  const asker = new Asker(session, options, stream.giveUpAfterMs, link.controller);
  const watch = new Watch(session, stream, asker);
  // At once, also while whoever reads the events is busy with one of them.
  const leave = follow(signal, () => void watch.stop());
  try {
    await stream.open();
    signal.throwIfAborted();
    await until(watch.send(text, options.attachments), signal);
    for await (const event of stream) {
      if (watch.isOurs(event)) yield event;
      if (event.type === 'replay_gap') await watch.bridge();
      watch.checkLost();
      if (watch.result !== undefined) return { ...watch.result, sessionId: session.id };
    }
    const message = 'the session was closed before the prompt was over';
    throw new ApiError({ status: 404, code: 'session_not_found', message });
  } catch (error) {
    // Of what the callbacks met elsewhere the signal tells: then there is a prompt to stop.
    if (!signal.aborted && isGone(error)) watch.isOpen = false;
    throw error;
  } finally {
    stream.close();
    await watch.stop();
    leave();
    link.release();
  }
}

/** Whether there is nobody left to tell that a prompt was left. */
function isGone(error: unknown): boolean {
  return error instanceof ApiError && (error.code === 'unreachable' || error.status === 404);
}

/** Follows one prompt through the events of its session. */
class Watch {
  /** Whether the prompt may be with the server and is not over: it would have to be stopped. */
  isOpen = false;
  result: Omit<RunResult, 'sessionId'> | undefined;
  readonly #session: Session;
  readonly #stream: EventStream;
  readonly #asker: Asker;
  readonly #sending = new AbortController();
  #send: (() => Promise<PromptAccepted>) | undefined;
  #accepted: PromptAccepted | undefined;
  #stopped: Promise<void> | undefined;
  #isRunning = false;
  /** The prompt is over by the time that this id was shown, even if its end was not. */
  #overAfter: number | undefined;
  #isLost = false;

  constructor(session: Session, stream: EventStream, asker: Asker) {
    this.#session = session;
    this.#stream = stream;
    this.#asker = asker;
  }

  async send(text: string, attachments: Attachment[] | undefined): Promise<void> {
    const prompt = { attachments, idempotencyKey: freshKey() };
    this.#send = () => this.#session.prompt(text, { ...prompt, timeoutMs: LEAVE_MS });
    this.isOpen = true;
    try {
      const { signal } = this.#sending;
      this.#accepted = await this.#session.prompt(text, { ...prompt, signal });
    } catch (error) {
      if (error instanceof ApiError && error.status !== 0) this.isOpen = false;
      throw error;
    }
  }

  /** Takes an event in and tells whether it belongs to the prompt. */
  isOurs(event: Event): boolean {
    if (event.type === 'replay_gap') return true;
    const promptId = this.#accepted?.promptId;
    const named = 'promptId' in event ? event.promptId : undefined;
    const isOurs = named === undefined ? this.#isRunning : named === promptId;
    if (named === promptId) this.#isRunning = event.type !== 'prompt_queued';
    if (!isOurs) {
      const isTurn = event.type === 'prompt_started' || event.type === 'turn_start';
      this.#isLost ||= isTurn && this.#isRunning;
      return false;
    }
    // What comes after `done` may be another prompt, even before `prompt_finished` is read.
    if (event.type === 'done') this.isOpen = false;
    if (event.type === 'prompt_finished') {
      this.isOpen = this.#isRunning = false;
      this.result = event.result;
    } else if (this.#isRunning) {
      this.#asker.see(event);
    }
    return true;
  }

  /** Looks up what the events that are missing may have said. */
  async bridge(): Promise<void> {
    const info = await this.#session.info({ signal: this.#stream.signal });
    if (info.state === 'idle' && info.queued === 0) this.#overAfter = info.lastEventId;
    // A prompt that did not have to wait has begun, though its start was not shown.
    else if (this.#accepted?.queued === false) this.#isRunning = true;
    if (!this.#isRunning || info.pendingRequests === 0) return;
    const pending = await this.#session.permissions({ signal: this.#stream.signal });
    for (const request of pending) this.#asker.see(request);
  }

  /** Throws where the end of the prompt was among events that are missing. */
  checkLost(): void {
    const seen = this.#stream.lastEventId ?? 0;
    const isOver = this.#overAfter !== undefined && seen >= this.#overAfter;
    if (this.result !== undefined || !(isOver || this.#isLost)) return;
    const message = 'the prompt is over, but the event that told how is no longer kept';
    this.isOpen = false;
    throw new ApiError({ status: 0, code: 'events_lost', message });
  }

  /** Ends what was begun: the prompt, where it is not over, and the callbacks. Never throws. */
  stop(): Promise<void> {
    // The caller is told of what came first; that the server could not be told is no news.
    this.#stopped ??= this.#stop().catch(() => undefined);
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#sending.abort(new DOMException('the prompt was left', 'AbortError'));
    await this.#asker.stop(LEAVE_MS);
    if (!this.isOpen) return;
    // Cut off while it was sent: whether it has arrived cannot be told. The same key tells its id,
    // or makes it come, and by that it can be stopped.
    const accepted = this.#accepted ?? (await this.#send?.());
    if (accepted === undefined) return;
    const { promptId } = accepted;
    await this.#session.interrupt({ promptId, timeoutMs: LEAVE_MS });
  }
}
