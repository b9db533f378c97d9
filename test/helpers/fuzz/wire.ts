import { connect, type Socket } from 'node:net';
import { type IsBodiless, type RawResponse, takeResponse } from '../raw-client.ts';

/** How long to wait for a response, in milliseconds. The time is long, because the machine may be busy. */
const TIMEOUT_MS = 60_000;

/** A connection that buffers received bytes until they are read as responses. */
export class Connection {
  readonly socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #isClosed = false;
  #onChange = () => {};

  /** With `isHalfOpen`, this side can send after the service has closed its side. */
  constructor(port: number, isHalfOpen = true) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: isHalfOpen, noDelay: true });
    this.socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#onChange();
    });
    // Ignore errors, because the test detects a broken connection by the missing responses.
    this.socket.on('error', () => {});
    for (const event of ['end', 'close']) {
      this.socket.on(event, () => {
        this.#isClosed = true;
        this.#onChange();
      });
    }
  }

  /** Sends bytes in several writes. `cuts` are the positions between the writes, as fractions of the length. */
  async send(bytes: Buffer, cuts: readonly number[]): Promise<void> {
    let from = 0;
    for (const to of [...cuts.map((cut) => Math.floor(cut * bytes.length)).sort((a, b) => a - b)]) {
      this.socket.write(bytes.subarray(from, to));
      from = to;
      await new Promise(setImmediate);
    }
    this.socket.write(bytes.subarray(from));
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * The next response that is not 1xx; undefined if the connection was closed or no response arrives within 60 s.
   *
   * @throws Error if a response is invalid, or the connection was closed within it
   */
  async receive(isBodiless: IsBodiless = () => false): Promise<RawResponse | undefined> {
    const deadline = Date.now() + TIMEOUT_MS;
    for (;;) {
      const taken = takeResponse(this.#received, isBodiless);
      if (taken) this.#received = taken.rest;
      if (taken && taken.response.status >= 200) return taken.response;
      if (taken) continue;
      if (this.#isClosed && this.#received.length > 0)
        throw new Error(`truncated response: ${legible(this.#received)}`);
      if (this.#isClosed || !(await this.#waitForChange(deadline))) return undefined;
    }
  }

  end(): void {
    this.socket.end();
  }

  /** What the service sends until it closes the connection, in Latin-1. @throws Error if that takes 60 s */
  async rest(): Promise<string> {
    const deadline = Date.now() + TIMEOUT_MS;
    try {
      while (!this.#isClosed) {
        if (!(await this.#waitForChange(deadline)))
          throw new Error('the service does not close the connection');
      }
      return this.#received.toString('latin1');
    } finally {
      this.socket.destroy();
    }
  }

  reset(): void {
    this.socket.resetAndDestroy();
  }

  /** Waits until data arrives or the connection ends. Resolves to false after the deadline. */
  #waitForChange(deadline: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), Math.max(0, deadline - Date.now()));
      this.#onChange = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }
}

/** Formats bytes for a failure message, and shortens long runs of one character. */
export const legible = (bytes: Buffer): string =>
  JSON.stringify(bytes.toString('latin1')).replace(/(.)\1{39,}/g, (run, char) => `${char}{${run.length}}`);

/** The fast-check options that repeat a failure. Set PETS_FUZZ_SEED and PETS_FUZZ_PATH to what the failure printed. */
export function replayed(): { seed?: number; path?: string } {
  const { PETS_FUZZ_SEED: seed, PETS_FUZZ_PATH: path } = process.env;
  return { ...(seed && { seed: Number(seed) }), ...(path && { path }) };
}
