import { setTimeout as sleep } from 'node:timers/promises';
import type { FleetServer } from './fleet.ts';

/** A response that has arrived completely. `next` is the path of the next page. */
export type Reply = {
  status: number;
  code: string | undefined;
  headers: Headers;
  body: string;
  next?: string;
};

/** Times of `performance.now()`. */
export type Period = { from: number; to: number };

/** A request that failed or took long. `path` has no query. `status` is 0 if the connection was cut. */
export type Exchange = Period & {
  server: number;
  method: string;
  path: string;
  status: number;
  code: string | undefined;
};

export type SendOptions = {
  method?: string;
  key?: string;
  body?: unknown;
  idempotencyKey?: string | undefined;
};

/** Sends requests to several servers, and records when each request failed and how long the slowest took. */
export class Traffic {
  readonly servers: readonly FleetServer[];
  readonly failures: Exchange[] = [];
  /** Requests that took longer than a second. */
  readonly slow: Exchange[] = [];
  count = 0;
  #key: string;
  #hasStopped = false;
  #loops: Promise<void>[] = [];

  /** @param key the API key of requests without a key of their own */
  constructor(servers: readonly FleetServer[], key: string) {
    this.servers = servers;
    this.#key = key;
  }

  /** Resolves with undefined if the connection was cut. */
  async send(server: number, path: string, options: SendOptions = {}): Promise<Reply | undefined> {
    const { method = 'GET', key = this.#key, body, idempotencyKey } = options;
    const from = performance.now();
    let reply: Reply | undefined;
    try {
      const response = await fetch(new URL(path, this.servers[server]?.url), {
        method,
        headers: {
          Authorization: `Bearer ${key}`,
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...(idempotencyKey !== undefined && { 'Idempotency-Key': `"${idempotencyKey}"` }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(LONGEST_WAIT_MS),
      });
      reply = await readReply(response);
    } catch (error) {
      // A server that does not respond at all fails the test. A cut connection is a TypeError.
      if (!(error instanceof TypeError)) throw error;
    }
    const to = performance.now();
    this.count += 1;
    const { status = 0, code } = reply ?? {};
    const exchange = { server, method, path: path.replace(/\?.*/, ''), status, code, from, to };
    if (to - from > SLOW_MS) this.slow.push(exchange);
    if (status === 0 || status >= 500) this.failures.push(exchange);
    return reply;
  }

  /** Repeats an action until `stop`, with a delay between the calls. */
  repeat(action: () => Promise<void>, delay: number): void {
    const loop = async () => {
      while (!this.#hasStopped) {
        await action();
        await sleep(delay);
      }
    };
    this.#loops.push(loop());
  }

  /** Runs a task. Rejects early if one of the loops fails. */
  async during<Result>(task: () => Promise<Result>): Promise<Result> {
    const failed = Promise.all(this.#loops).then(() => new Promise<never>(() => {}));
    return Promise.race([task(), failed]);
  }

  get hasStopped(): boolean {
    return this.#hasStopped;
  }

  /** Ends the loops after their current action. */
  async stop(): Promise<void> {
    this.#hasStopped = true;
    await Promise.all(this.#loops);
  }
}

const LONGEST_WAIT_MS = 30_000;
const SLOW_MS = 1_000;

async function readReply(response: Response): Promise<Reply> {
  const { status, headers } = response;
  const body = await response.text();
  const code = status >= 400 ? (JSON.parse(body) as { code: string }).code : undefined;
  const next = /^<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1];
  return { status, code, headers, body, ...(next !== undefined && { next }) };
}
