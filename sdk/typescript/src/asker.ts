import { type Callbacks, decide, refusal } from './decisions.js';
import { ApiError } from './errors.js';
import type { Event, InteractionRequest } from './event.js';
import type { Session } from './session.js';
import type { Answer } from './wire.js';

/** Characters of a refusal that the model is shown. */
const REASON_CHARS_MAX = 1_000;
/** Somebody else was faster, or the turn that asked is over: no failure of ours. */
const DECIDED = new Set(['request_resolved', 'request_not_found']);
/** How the server says that it does not take an answer. */
const NOT_TAKEN = new Set([400, 403]);

/** Answers the requests of one prompt with the caller's callbacks, beside its events. */
export class Asker {
  readonly #session: Session;
  readonly #callbacks: Callbacks;
  /** For how long an answer is repeated: as long as the stream of events tries. */
  readonly #patienceMs: number;
  /** Aborted with the error of a callback. */
  readonly #turn: AbortController;
  readonly #seen = new Map<string, AbortController>();
  readonly #failed: InteractionRequest[] = [];

  constructor(
    session: Session,
    callbacks: Callbacks,
    patienceMs: number,
    turn: AbortController,
  ) {
    this.#session = session;
    this.#callbacks = callbacks;
    this.#patienceMs = patienceMs;
    this.#turn = turn;
  }

  see(event: Event): void {
    switch (event.type) {
      case 'permission_request':
      case 'question_request':
      case 'plan_request':
        // After a reconnect the same request may come again.
        if (!this.#seen.has(event.requestId)) void this.#answer(event);
        break;
      case 'request_resolved':
        this.#seen.get(event.requestId)?.abort(new DOMException('decided', 'AbortError'));
        break;
      default:
    }
  }

  /** Ends the callbacks, and decides against what one of them failed to decide. */
  async stop(limitMs: number): Promise<void> {
    const reason = new DOMException('the prompt is over', 'AbortError');
    for (const controller of this.#seen.values()) controller.abort(reason);
    const settings = { timeoutMs: limitMs };
    const noes = this.#failed.map((request) =>
      this.#session.answer(request.requestId, refusal(request), settings),
    );
    await Promise.allSettled(noes);
  }

  async #answer(request: InteractionRequest): Promise<void> {
    const controller = new AbortController();
    this.#seen.set(request.requestId, controller);
    const { signal } = controller;
    const answer = await this.#decide(request, signal);
    if (answer === undefined || signal.aborted) return;
    try {
      await this.#send(request, answer, signal);
    } catch (error) {
      if (!signal.aborted) this.#turn.abort(error);
    }
  }

  async #decide(request: InteractionRequest, signal: AbortSignal): Promise<Answer | undefined> {
    try {
      return await decide(this.#callbacks, request, { signal });
    } catch (error) {
      if (signal.aborted) return undefined;
      // Nothing may run because a callback failed: its request gets a no, then comes the interrupt.
      this.#failed.push(request);
      this.#turn.abort(error);
      return undefined;
    }
  }

  /** Sends an answer; one that the server does not take becomes a no that says why. */
  async #send(request: InteractionRequest, answer: Answer, signal: AbortSignal): Promise<void> {
    const settings = { signal, patienceMs: this.#patienceMs };
    const send = (body: Answer) => this.#session.answer(request.requestId, body, settings);
    try {
      await send(answer).catch((error: unknown) => {
        if (!(error instanceof ApiError) || !NOT_TAKEN.has(error.status)) throw error;
        const why = `the answer could not be taken: ${error.message}`.slice(0, REASON_CHARS_MAX);
        return send(refusal(request, why));
      });
    } catch (error) {
      if (!(error instanceof ApiError) || !DECIDED.has(error.code)) throw error;
    }
  }
}
