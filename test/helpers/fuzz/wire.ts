import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Quota } from '../../../src/contract/plans.ts';
import { createApp } from '../../../src/server/app.ts';
import { type ListenOptions, listen } from '../../../src/server/connection/listen.ts';
import type { FaultOptions } from '../../../src/server/faults/draw.ts';
import { createBans } from '../../../src/server/limits/bans.ts';
import { createMemoryLimiter } from '../../../src/server/limits/limiter.ts';
import { hashKey } from '../../../src/store/keys.ts';
import type { Store } from '../../../src/store/store.ts';
import { type ManualClock, manualClock } from '../clock.ts';
import type { RawAnswer } from '../raw-client.ts';
import { atLoopback } from '../raw-requests.ts';

/**
 * How long an answer may take until it counts as lost, in milliseconds: far more than the service takes, as a machine that
 * has too much to do makes seconds of milliseconds.
 */
const PATIENCE = 10_000;

export type FuzzedOptions = {
  /** The quota of each key that the service knows. */
  quotas: Readonly<Record<string, Quota>>;
  store: (clock: ManualClock) => Store;
  /** Where the clock stands. */
  time?: string;
  ban?: { after: number; milliseconds: number };
  faults?: FaultOptions | undefined;
  limits?: ListenOptions['limits'];
};

/** The service on a free loopback port, without anything that grows by its requests; who starts it stops it. */
export async function startFuzzed({
  quotas,
  time,
  faults,
  limits,
  ban = { after: 0, milliseconds: 0 },
  ...options
}: FuzzedOptions) {
  const clock = manualClock(time);
  const store = options.store(clock);
  const errors: unknown[] = [];
  const known = new Map(Object.entries(quotas).map(([key, quota]) => [hashKey(key), { quota }]));
  const app = createApp({
    store,
    keys: { find: async (sha256) => known.get(sha256) },
    limiter: createMemoryLimiter(clock, createBans(ban, clock)),
    strangers: createMemoryLimiter(clock),
    hosts: atLoopback.hosts,
    faults,
    clock,
    onError: (error) => errors.push(error),
  });
  const { port, stop } = await listen(app, { host: '127.0.0.1', port: 0, limits });
  return { clock, store, errors, port, stop: () => stop(0) };
}

/** Whether an answer has no body, whatever its length says: by what follows its headers. */
export type IsBodiless = (behind: Buffer) => boolean;

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) [A-Z][A-Za-z '-]+$/;
const FIELD = /^([A-Za-z-]+): ([\x20-\x7e]*)$/;

/**
 * Takes the first answer off what came; undefined while it is not complete.
 *
 * @throws Error for what is no answer of HTTP/1.1, or has a header twice
 */
export function takeAnswer(
  bytes: Buffer,
  isBodiless: IsBodiless,
): { answer: RawAnswer; rest: Buffer } | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [line = '', ...fields] = bytes.subarray(0, end).toString('latin1').split('\r\n');
  const status = Number(STATUS_LINE.exec(line)?.[1]);
  if (Number.isNaN(status)) throw new Error(`no status line: ${JSON.stringify(line)}`);
  const headers: Record<string, string> = {};
  for (const field of fields) {
    const [, name = '', value = ''] = FIELD.exec(field) ?? [];
    if (name === '' || name.toLowerCase() in headers) throw new Error(`no header: ${JSON.stringify(field)}`);
    headers[name.toLowerCase()] = value;
  }
  const behind = bytes.subarray(end + 4);
  if (status < 200 || status === 204 || isBodiless(behind)) {
    return { answer: { status, headers, body: '' }, rest: behind };
  }
  if (!/^\d+$/.test(headers['content-length'] ?? '')) throw new Error(`${status} has no length`);
  const length = Number(headers['content-length']);
  if (behind.length < length) return undefined;
  return {
    answer: { status, headers, body: behind.toString('utf8', 0, length) },
    rest: behind.subarray(length),
  };
}

/** A connection that stays, and what came over it that nobody has taken yet. */
export class Connection {
  readonly #socket: Socket;
  #came: Buffer = Buffer.alloc(0);
  #isOver = false;
  #wake = () => {};

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    this.#socket.on('data', (chunk) => {
      this.#came = Buffer.concat([this.#came, chunk]);
      this.#wake();
    });
    // One that is cut is seen by the answers that are missing.
    this.#socket.on('error', () => {});
    for (const event of ['end', 'close']) {
      this.#socket.on(event, () => {
        this.#isOver = true;
        this.#wake();
      });
    }
  }

  /** Whether it serves no longer. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Sends bytes in one piece more than there are cuts, each a share of them from 0 to 1. */
  async send(bytes: Buffer, cuts: readonly number[]): Promise<void> {
    let from = 0;
    for (const to of [...cuts.map((cut) => Math.floor(cut * bytes.length)).sort((a, b) => a - b)]) {
      this.#socket.write(bytes.subarray(from, to));
      from = to;
      await new Promise(setImmediate);
    }
    this.#socket.write(bytes.subarray(from));
  }

  /** The next answer but 100; undefined where the service has closed the connection, or says nothing more. */
  async receive(isBodiless: IsBodiless): Promise<RawAnswer | undefined> {
    const deadline = Date.now() + PATIENCE;
    for (;;) {
      const taken = takeAnswer(this.#came, isBodiless);
      if (taken) this.#came = taken.rest;
      if (taken && taken.answer.status >= 200) return taken.answer;
      if (!taken && (this.#isOver || !(await this.#hear(deadline)))) return undefined;
    }
  }

  /** Closes the sending side. */
  end(): void {
    this.#socket.end();
  }

  /** What the service sends until it closes the connection, in latin1. @throws Error where it does not */
  async rest(): Promise<string> {
    const deadline = Date.now() + PATIENCE;
    try {
      while (!this.#isOver) {
        if (!(await this.#hear(deadline))) throw new Error('the service does not close the connection');
      }
      return this.#came.toString('latin1');
    } finally {
      this.#socket.destroy();
    }
  }

  /** Cuts it: the service sees a reset. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  /** Waits for something to happen; false where nothing does in time. */
  #hear(deadline: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), Math.max(0, deadline - Date.now()));
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }
}

/** Bytes as a person reads them: long runs of a character are counted. */
export const legible = (bytes: Buffer): string =>
  JSON.stringify(bytes.toString('latin1')).replace(/(.)\1{39,}/g, (run, char) => `${char}{${run.length}}`);

/** What replays a failure: `PETS_FUZZ_SEED` and `PETS_FUZZ_PATH`, as the failure prints them. */
export function replayed(): { seed?: number; path?: string } {
  const { PETS_FUZZ_SEED: seed, PETS_FUZZ_PATH: path } = process.env;
  return { ...(seed && { seed: Number(seed) }), ...(path && { path }) };
}

/** The bytes that are held once what nobody holds is gone. */
export function heap(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}
