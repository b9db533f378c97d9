/** After a failure was reported, the same failure is not reported again for this long, in milliseconds. */
const REPEAT_MS = 10_000;

/**
 * Tells the user when calls begin to fail, and when they succeed again. Several connections share a report, because an
 * outage of the database affects all of them.
 */
export class OutageReport {
  #place: string;
  #elapsed: () => number;
  #onWarning: (message: string) => void;
  #failing = new Set<unknown>();
  /** When each message was reported. */
  #reported = new Map<string, number>();
  #isReported = false;

  /** @param place the URL of the database without its password */
  constructor(place: string, elapsed: () => number, onWarning: (message: string) => void) {
    this.#place = place;
    this.#elapsed = elapsed;
    this.#onWarning = onWarning;
  }

  failed(connection: unknown, { message }: Error): void {
    if (this.#failing.has(connection)) return;
    this.#failing.add(connection);
    const now = this.#elapsed();
    if (now - (this.#reported.get(message) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    this.#reported.set(message, now);
    this.#isReported = true;
    this.#onWarning(`${message}; requests that need this get 503`);
  }

  succeeded(connection: unknown): void {
    if (!this.#failing.delete(connection) || this.#failing.size > 0 || !this.#isReported) return;
    this.#isReported = false;
    this.#onWarning(`${this.#place} can be used again`);
  }
}
