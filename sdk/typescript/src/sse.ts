import { ApiError } from './errors.js';

/** Characters of one frame: an event with images fits, a runaway peer does not. */
export const FRAME_CHARS_MAX = 32 * 1024 * 1024;

/** One dispatched event of a `text/event-stream`. */
export interface SseFrame {
  /** Its own `id:` line; absent where it had none. */
  id: string | undefined;
  /** The `event:` line; `message` where absent. */
  event: string;
  /** The `data:` lines, joined. */
  data: string;
}

/**
 * Reads server-sent events from bytes that may be cut anywhere.
 *
 * Follows the HTML standard: LF, CR and CRLF end lines, one leading byte order mark is skipped,
 * bytes that are no UTF-8 become U+FFFD, and an event that the stream's end cuts off is dropped.
 */
export class SseParser {
  /** The last `id:` seen, as the standard keeps it over frames. */
  lastEventId = '';
  /** The last `retry:` seen, in milliseconds. */
  retryMs: number | undefined;

  readonly #decoder = new TextDecoder('utf-8');
  readonly #frameCharsMax: number;
  #line = '';
  #skipsLf = false;
  #data: string[] = [];
  #chars = 0;
  #event = '';
  #id: string | undefined;

  constructor(options: { frameCharsMax?: number } = {}) {
    this.#frameCharsMax = options.frameCharsMax ?? FRAME_CHARS_MAX;
  }

  /** Takes the next bytes and returns the frames that they complete. */
  push(bytes: Uint8Array): SseFrame[] {
    const frames: SseFrame[] = [];
    const text = this.#decoder.decode(bytes, { stream: true });
    let at = 0;
    if (this.#skipsLf && text.length > 0) {
      if (text[0] === '\n') at = 1;
      this.#skipsLf = false;
    }
    const ends = /\r\n|\n|\r/g;
    ends.lastIndex = at;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      const line = this.#line + text.slice(at, end.index);
      this.#line = '';
      at = ends.lastIndex;
      // A CR at the end of a piece may be half of a CRLF.
      this.#skipsLf = end[0] === '\r' && at === text.length;
      this.#take(line, frames);
    }
    this.#line += text.slice(at);
    this.#check(this.#line.length);
    return frames;
  }

  #check(chars: number): void {
    if (this.#chars + chars > this.#frameCharsMax) {
      const message = `an event is larger than ${this.#frameCharsMax} characters`;
      throw new ApiError({ status: 0, code: 'frame_too_large', message });
    }
  }

  #take(line: string, frames: SseFrame[]): void {
    if (line === '') return this.#dispatch(frames);
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const raw = colon < 0 ? '' : line.slice(colon + 1);
    const value = raw.startsWith(' ') ? raw.slice(1) : raw;
    if (name === 'data') {
      this.#check(value.length + 1);
      this.#chars += value.length + 1;
      this.#data.push(value);
    } else if (name === 'event') {
      this.#check(value.length);
      this.#event = value;
    } else if (name === 'id' && !value.includes('\0')) {
      this.#id = value;
      this.lastEventId = value;
    } else if (name === 'retry' && /^[0-9]+$/.test(value)) {
      this.retryMs = Number(value);
    }
  }

  #dispatch(frames: SseFrame[]): void {
    if (this.#data.length > 0) {
      const data = this.#data.join('\n');
      frames.push({ id: this.#id, event: this.#event || 'message', data });
    }
    this.#data = [];
    this.#chars = 0;
    this.#event = '';
    this.#id = undefined;
  }
}
