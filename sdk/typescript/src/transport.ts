import { ApiError } from './errors.js';
import type { StreamSettings } from './stream.js';
import { ASKED_MS_MAX, backoffMs, linked, retryAfterMs, sleep } from './waiting.js';

/** How often a request is sent at most. */
const ATTEMPTS_MAX = 5;
/** How long one attempt may take, in milliseconds: all answers are quick, a prompt is taken in. */
const ATTEMPT_MS = 60_000;
/** Failures before anything was sent, as Node names them; browsers do not tell. */
const NOT_SENT = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Where a server is and how to talk to it. */
export interface ConnectOptions {
  /** For example `http://127.0.0.1:7420`; with a path where a proxy puts the server below one. */
  url: string;
  /** The bearer token. */
  token: string;
  /** What sends requests; the global `fetch` by default. */
  fetch?: typeof globalThis.fetch;
  /** How often a request that failed on the way is sent at most; 5 by default. */
  attempts?: number;
  /** Ends everything that goes on over this connection, with its reason. */
  signal?: AbortSignal;
  /** Settings of every stream of events, those that `run()` reads included. */
  streams?: StreamSettings;
}

/** What one call is. */
export interface CallOptions {
  body?: unknown;
  query?: Record<string, string | number | undefined>;
  signal?: AbortSignal | undefined;
  /** Sent as `Idempotency-Key`: the server starts the same work once, however often it is asked. */
  idempotencyKey?: string | undefined;
  /** Whether it may be sent again when nobody knows whether it arrived. */
  repeatable?: boolean;
  /** How often it is sent at most; by default what the connection says. */
  attempts?: number;
  /** How long to go on after the first failure, in milliseconds, in place of counting attempts. */
  patienceMs?: number | undefined;
  /** How long one attempt may take, in milliseconds; 60,000 by default. */
  timeoutMs?: number | undefined;
}

/** One `events` request. */
export interface OpenOptions {
  lastEventId: number | undefined;
  signal: AbortSignal;
}

/** HTTP to one server: addresses, the token, errors, retries. */
export class Transport {
  /** The address without a slash at its end. */
  readonly url: string;
  /** Aborted when everything is to end. */
  readonly ended: AbortSignal | undefined;
  readonly #token: string;
  readonly #fetch: typeof globalThis.fetch;
  readonly #attempts: number;

  constructor(options: ConnectOptions) {
    if (!/^https?:\/\//i.test(options.url)) {
      const words = `url must begin with http:// or https://, got '${options.url}'`;
      throw new TypeError(words);
    }
    // Throws where the rest is no address.
    new URL(options.url);
    this.url = options.url.replace(/\/+$/, '');
    this.ended = options.signal;
    this.#token = options.token;
    // Browsers refuse a `fetch` that is called as a method of something else.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#attempts = Math.max(1, options.attempts ?? ATTEMPTS_MAX);
  }

  /** Sends a request, again where that may help, and returns the JSON of its answer. */
  async call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    let sinceMs: number | undefined;
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.#attempt<T>(method, path, options);
      } catch (error) {
        if (!(error instanceof ApiError) || !mayRepeat(error, method, options)) throw error;
        sinceMs ??= Date.now();
        const wait = error.retryAfterMs ?? backoffMs(failures);
        if (wait > this.#leftMs(failures, sinceMs, options)) throw error;
        const link = linked(options.signal, this.ended);
        await sleep(wait, link.signal).finally(link.release);
      }
    }
  }

  /** How long the next wait may be after so many failures. */
  #leftMs(failures: number, sinceMs: number, options: CallOptions): number {
    const { attempts = this.#attempts, patienceMs } = options;
    if (patienceMs === undefined) return failures < attempts ? ASKED_MS_MAX : -1;
    return Math.min(ASKED_MS_MAX, sinceMs + patienceMs - Date.now());
  }

  async #attempt<T>(method: string, path: string, options: CallOptions): Promise<T> {
    const link = linked(options.signal, this.ended);
    const { timeoutMs = ATTEMPT_MS } = options;
    const late = new ApiError({
      status: 0,
      code: 'unreachable',
      message: `no answer to ${method} ${path} within ${timeoutMs} ms`,
    });
    const timer = setTimeout(() => link.controller.abort(late), timeoutMs);
    try {
      const headers: Record<string, string> = { accept: 'application/json' };
      if (options.body !== undefined) headers['content-type'] = 'application/json';
      if (options.idempotencyKey !== undefined) headers['idempotency-key'] = options.idempotencyKey;
      const init: RequestInit = { method, headers, signal: link.signal };
      if (options.body !== undefined) init.body = JSON.stringify(options.body);
      const response = await this.#send(path + queryOf(options.query), init);
      return await read<T>(response, link.signal);
    } finally {
      clearTimeout(timer);
      link.release();
    }
  }

  /** Opens a stream of events: one attempt. */
  async open(path: string, options: OpenOptions): Promise<ReadableStream<Uint8Array>> {
    const headers: Record<string, string> = { accept: 'text/event-stream' };
    if (options.lastEventId !== undefined) headers['last-event-id'] = String(options.lastEventId);
    const init: RequestInit = { headers, signal: options.signal, cache: 'no-store' };
    const response = await this.#send(path, init);
    const type = response.headers.get('content-type') ?? '';
    if (!/^text\/event-stream\s*(;|$)/i.test(type) || response.body === null) {
      void response.body?.cancel().catch(() => undefined);
      const message = `expected a stream of events, got '${type || 'no content type'}'`;
      throw new ApiError({ status: 0, code: 'bad_answer', message });
    }
    return response.body;
  }

  async #send(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...init.headers, authorization: `Bearer ${this.#token}` };
    let response: Response;
    try {
      // A redirect would carry the token to whatever it names.
      response = await this.#fetch(`${this.url}/v1${path}`, {
        ...init,
        headers,
        redirect: 'error',
      });
    } catch (error) {
      throw init.signal?.aborted ? init.signal.reason : unreachable(error);
    }
    if (response.ok) return response;
    throw await refusal(response);
  }
}

/** Whether a request may be sent again after a failure. */
function mayRepeat(error: ApiError, method: string, options: CallOptions): boolean {
  const repeatable = options.repeatable ?? (method === 'GET' || method === 'DELETE');
  if (!repeatable) return isNotSent(error);
  return error.retryable || (error.status === 500 && method === 'GET');
}

/** Whether nothing of the request has reached the server. */
function isNotSent(error: ApiError): boolean {
  const { cause } = error.cause instanceof Error ? error.cause : {};
  return NOT_SENT.has(String((cause as { code?: unknown } | undefined)?.code));
}

/** Makes an `Idempotency-Key`. Not with `randomUUID`, which only secure contexts have. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Makes an `ApiError` of a failure to send or to read. */
export function unreachable(cause: unknown): ApiError {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const words = inner instanceof Error ? inner.message || inner.name : String(inner);
  return new ApiError({
    status: 0,
    code: 'unreachable',
    message: `the server cannot be reached: ${words}`,
    cause,
  });
}

async function read<T>(response: Response, signal: AbortSignal): Promise<T> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    throw signal.aborted ? signal.reason : unreachable(error);
  }
  if (text === '') return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    const message = `the answer with status ${response.status} is no JSON`;
    throw new ApiError({ status: 0, code: 'bad_answer', message, cause });
  }
}

/** Makes an `ApiError` of an answer that says no. */
async function refusal(response: Response): Promise<ApiError> {
  const { status } = response;
  const header = response.headers.get('x-request-id') ?? undefined;
  const fields = {
    status,
    code: `http_${status}`,
    message: `the server answered ${status} ${response.statusText}`.trimEnd(),
    requestId: header,
    retryAfterMs: retryAfterMs(response.headers.get('retry-after')),
  };
  try {
    const { error } = (await response.json()) as { error?: Partial<Record<string, unknown>> };
    if (typeof error?.['code'] === 'string') fields.code = error['code'];
    if (typeof error?.['message'] === 'string') fields.message = error['message'];
    if (typeof error?.['requestId'] === 'string') fields.requestId = error['requestId'];
  } catch {
    // Not every answer is the server's own: a proxy before it has other bodies.
  }
  return new ApiError(fields);
}

function queryOf(query: CallOptions['query']): string {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  if (pairs.length === 0) return '';
  return `?${new URLSearchParams(pairs.map(([key, value]) => [key, String(value)]))}`;
}
