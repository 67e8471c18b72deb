/** What an `ApiError` is made of. */
export interface ApiErrorFields {
  status: number;
  code: string;
  message: string;
  requestId?: string | undefined;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/** Answers of a server, or of a proxy before it, that is not there for the moment. */
const PASSING = new Set([502, 503, 504]);

/**
 * Something that was asked of a server failed.
 *
 * `status` is that of the answer. It is 0 where the server did not say no but none could be
 * heard; `code` is then one of
 *
 * - `unreachable`: no connection, or none any more, within the time allowed;
 * - `bad_answer`: what answered does not speak this protocol;
 * - `frame_too_large`: one event was larger than the limit;
 * - `events_lost`: the end of the prompt was among events that the server no longer keeps.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status, or 0. */
  readonly status: number;
  /** The stable code, for example `session_not_found`; `http_502` where the answer had none. */
  readonly code: string;
  /** The id under which the server knows the request. */
  readonly requestId: string | undefined;
  /** How long the server asks to wait before the next attempt, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(fields: ApiErrorFields) {
    super(fields.message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.status = fields.status;
    this.code = fields.code;
    this.requestId = fields.requestId;
    this.retryAfterMs = fields.retryAfterMs;
  }

  /**
   * Whether the same request may succeed a moment later. A refusal for want of room (429) is where
   * the server says when; without a time it is the caller's to solve.
   */
  get retryable(): boolean {
    if (this.status === 0) return this.code === 'unreachable';
    if (this.status === 429) return this.retryAfterMs !== undefined;
    return PASSING.has(this.status);
  }
}

/** The program could not be found or started, or it died. */
export class ServerProcessError extends Error {
  override readonly name = 'ServerProcessError';
  /** The exit code, where it ended by itself. */
  readonly exitCode: number | null;
  /** The last lines that it wrote to standard error. */
  readonly stderr: string;

  constructor(message: string, fields: { exitCode?: number | null; stderr?: string } = {}) {
    super(message);
    this.exitCode = fields.exitCode ?? null;
    this.stderr = fields.stderr ?? '';
  }
}
