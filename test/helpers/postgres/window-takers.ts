import { expect } from 'vitest';
import { header } from '../../../src/contract/headers.ts';
import type { Writers } from './writers.ts';

const MINUTE_SECONDS = 60;

type WindowRecord = { remaining: number[]; ambiguous: number; isExhausted: boolean };

/** Uses up the windows of one API key on all servers, with creations. Records which requests were counted. */
export class WindowTakers {
  /** The windows by the seconds since 1970 at which they end. */
  #windows = new Map<number, WindowRecord>();
  #writers: Writers;
  #key: string;
  #perMinute: number;

  constructor(writers: Writers, key: string, perMinute: number) {
    this.#writers = writers;
    this.#key = key;
    this.#perMinute = perMinute;
  }

  /** Sends one request to a server. */
  async take(server: number): Promise<void> {
    const sentAt = Date.now();
    const reply = await this.#writers.add(server, this.#key);
    const endOf = (time: number) => (Math.floor(time / 1_000 / MINUTE_SECONDS) + 1) * MINUTE_SECONDS;
    if (reply?.status === 201) {
      const window = this.#window(Number(reply.headers.get(header.rateLimitReset)));
      window.remaining.push(Number(reply.headers.get(header.rateLimitRemaining)));
    } else if (reply?.status === 429) {
      this.#window(Number(reply.headers.get(header.rateLimitReset))).isExhausted = true;
    } else {
      // The request may have been counted in any window between its beginning and its end.
      const last = endOf(Date.now());
      for (let end = endOf(sentAt); end <= last; end += MINUTE_SECONDS) this.#window(end).ambiguous += 1;
    }
  }

  /** Checks that each window granted its number of requests. Returns the number of windows that were used up. */
  check(): number {
    const all = [...this.#windows.values()];
    for (const { remaining, ambiguous, isExhausted } of all) {
      expect(new Set(remaining).size, 'different values of Remaining').toBe(remaining.length);
      expect(Math.max(...remaining, 0)).toBeLessThan(this.#perMinute);
      expect(Math.min(...remaining, 0)).toBeGreaterThanOrEqual(0);
      if (isExhausted) expect(remaining.length + ambiguous).toBeGreaterThanOrEqual(this.#perMinute);
    }
    return all.filter(({ isExhausted }) => isExhausted).length;
  }

  #window(end: number): WindowRecord {
    const known = this.#windows.get(end) ?? { remaining: [], ambiguous: 0, isExhausted: false };
    this.#windows.set(end, known);
    return known;
  }
}
