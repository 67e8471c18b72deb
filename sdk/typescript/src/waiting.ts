/** The first wait after a failure, in milliseconds. */
const FIRST_MS = 500;
/** The longest wait between two attempts that the client chooses itself, in milliseconds. */
const LONGEST_MS = 8_000;
/** The longest wait that a server may ask for, in milliseconds: beyond it the caller decides. */
export const ASKED_MS_MAX = 60_000;

/** Returns how long to wait before attempt `failures + 1`: doubling, with full jitter. */
export function backoffMs(failures: number, random: () => number = Math.random): number {
  const ceiling = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
  return Math.round(random() * ceiling);
}

/** Reads a `Retry-After` header, seconds or a date, in milliseconds. */
export function retryAfterMs(value: string | null, nowMs: number = Date.now()): number | undefined {
  if (value === null) return undefined;
  const text = value.trim();
  const asked = /^[0-9]+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isNaN(asked) ? undefined : Math.max(0, asked);
}

/** Waits, or rejects with the signal's reason as soon as it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const leave = follow(signal, () => {
      clearTimeout(timer);
      reject(signal?.reason);
    });
    const timer = setTimeout(() => {
      leave();
      resolve();
    }, ms);
  });
}

/** Who follows a signal that is not aborted. */
const followers = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `told` when the signal is aborted, until the function that it returns is called.
 *
 * However many follow a signal, it has one listener: Node takes more than ten for a leak.
 */
export function follow(signal: AbortSignal | undefined, told: () => void): () => void {
  if (signal === undefined) return () => undefined;
  const set = followers.get(signal) ?? listen(signal);
  const one = () => told();
  set.add(one);
  return () => void set.delete(one);
}

function listen(signal: AbortSignal): Set<() => void> {
  const set = new Set<() => void>();
  followers.set(signal, set);
  // It stays: it holds nothing but the set, and goes with the signal.
  signal.addEventListener('abort', () => [...set].forEach((told) => told()), { once: true });
  return set;
}

/** Waits for something, or throws the signal's reason as soon as it is aborted. */
export async function until<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let leave: (() => void) | undefined;
  try {
    return await new Promise<T>((resolve, reject) => {
      if (signal.aborted) reject(signal.reason);
      leave = follow(signal, () => reject(signal.reason));
      work.then(resolve, reject);
    });
  } finally {
    leave?.();
  }
}

/** An abort controller that follows other signals until it is let go. */
export interface Linked {
  controller: AbortController;
  signal: AbortSignal;
  /** Stops following. Without it a signal that outlives many requests would hold all of them. */
  release(): void;
}

/** Makes a controller that aborts when one of `signals` does, with its reason. */
export function linked(...signals: (AbortSignal | undefined)[]): Linked {
  const controller = new AbortController();
  const undo: (() => void)[] = [];
  for (const signal of signals) {
    if (signal === undefined) continue;
    if (signal.aborted) {
      controller.abort(signal.reason);
      break;
    }
    undo.push(follow(signal, () => controller.abort(signal.reason)));
  }
  const release = () => undo.splice(0).forEach((step) => step());
  return { controller, signal: controller.signal, release };
}
