// A small v1 door over HTTP that does what a test scripts.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Call {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: any;
}

export type Handler = (call: Call, response: ServerResponse) => void | Promise<void>;

export interface Frame {
  id?: number;
  data: { type: string; [field: string]: unknown };
}

export function frameText(frame: Frame): string {
  const id = frame.id === undefined ? '' : `id: ${frame.id}\n`;
  return `${id}event: ${frame.data.type}\ndata: ${JSON.stringify(frame.data)}\n\n`;
}

export function json(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

export function refuse(response: ServerResponse, status: number, code: string, headers = {}): void {
  json(response, status, { error: { code, message: `no: ${code}`, requestId: 'r-1' } }, headers);
}

export function sse(response: ServerResponse): ServerResponse {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  return response;
}

/** One session, `s1`, whose frames a test emits. Any route can be taken over with `on`. */
export class FakeDoor {
  readonly calls: Call[] = [];
  readonly frames: Frame[] = [];
  info = { state: 'idle', queued: 0, pendingRequests: 0 };
  /** How many frames one connection gets before it is cut. */
  cutAfter = Infinity;
  pending: unknown[] = [];
  readonly #server: Server;
  readonly #handlers = new Map<string, Handler>();
  readonly #viewers = new Map<ServerResponse, { sent: number }>();

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error) => response.destroy(error));
    });
  }

  static async start(): Promise<FakeDoor> {
    const door = new FakeDoor();
    await new Promise<void>((resolve) => door.#server.listen(0, '127.0.0.1', resolve));
    return door;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Takes a route over: `GET /sessions/s1/events`. */
  on(route: string, handler: Handler): void {
    this.#handlers.set(route, handler);
  }

  off(route: string): void {
    this.#handlers.delete(route);
  }

  asked(route: string): Call[] {
    return this.calls.filter((call) => `${call.method} ${call.path}` === route);
  }

  /** Waits until a route was asked `count` times. */
  async until(route: string, count = 1): Promise<Call> {
    await this.wait(() => this.asked(route).length >= count, `${route} asked ${count} times`);
    return this.asked(route)[count - 1]!;
  }

  async wait(test: () => boolean, what: string): Promise<void> {
    const end = Date.now() + 10_000;
    while (!test()) {
      if (Date.now() > end) throw new Error(`expected ${what} within 10 s`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  emit(...events: ({ type: string } & Record<string, unknown>)[]): void {
    for (const data of events) {
      const last = this.frames.at(-1)?.id ?? 0;
      this.frames.push({
        id: last + 1,
        data: { sessionId: 's1', ts: '2026-01-01T00:00:00.000Z', ...data },
      });
    }
    for (const viewer of this.#viewers.keys()) this.#show(viewer);
  }

  /** Cuts all streams. */
  cut(): void {
    for (const viewer of this.#viewers.keys()) viewer.destroy();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #show(viewer: ServerResponse, after?: number): void {
    const place = this.#viewers.get(viewer);
    if (place === undefined) return;
    const from = after ?? (viewer as { shown?: number }).shown ?? 0;
    for (const frame of this.frames) {
      if ((frame.id ?? 0) <= from) continue;
      if (place.sent >= this.cutAfter) break;
      viewer.write(frameText(frame));
      place.sent += 1;
      (viewer as { shown?: number }).shown = frame.id ?? from;
    }
    // Not at once: `fetch` drops what it has read and not yet handed on when the connection breaks.
    if (place.sent >= this.cutAfter) setTimeout(() => viewer.socket?.end(), 10);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const piece of request.setEncoding('utf8')) text += piece;
    const path = (request.url ?? '').replace(/^\/v1/, '');
    const body = text === '' ? undefined : JSON.parse(text);
    const call = { method: request.method ?? '', path, headers: request.headers, body };
    this.calls.push(call);
    const route = `${call.method} ${path.replace(/\?.*/, '')}`;
    const handler = this.#handlers.get(route);
    if (handler !== undefined) return handler(call, response);
    this.#usual(route, call, response);
  }

  #usual(route: string, call: Call, response: ServerResponse): void {
    switch (route) {
      case 'GET /sessions/s1': {
        const lastEventId = this.frames.at(-1)?.id ?? 0;
        return json(response, 200, { id: 's1', lastEventId, ...this.info });
      }
      case 'GET /sessions/s1/events': {
        sse(response);
        this.#viewers.set(response, { sent: 0 });
        response.on('close', () => this.#viewers.delete(response));
        return this.#show(response, Number(call.headers['last-event-id'] ?? this.frames.length));
      }
      case 'GET /sessions/s1/permissions':
        return json(response, 200, { requests: this.pending });
      case 'POST /sessions/s1/prompt':
        return json(response, 202, { promptId: 'p1', queued: false, position: 0 });
      case 'POST /sessions/s1/interrupt':
        return json(response, 200, { interrupted: true });
      case 'DELETE /sessions/s1':
        response.writeHead(204).end();
        return;
      default:
        if (route.startsWith('POST /sessions/s1/permissions/'))
          return json(response, 200, { ok: true });
        return refuse(response, 404, 'not_found');
    }
  }
}
