import type { Client, QueryResultRow } from 'pg';

/** Starts a timer and returns a handle, with which `clearTimeout` cancels the timer. */
export type StartCallTimer = (callback: () => void, milliseconds: number) => NodeJS.Timeout | undefined;

/** An SQL statement. Statements with different texts have different names. */
export type Statement = { name: string; text: string };

/** Sends a statement and returns its rows. */
export type Query = <Row extends QueryResultRow>(statement: Statement, values: unknown[]) => Promise<Row[]>;

export type SessionOptions = {
  /** Whether statements are prepared under their names. */
  prepare: boolean;
  startTimer: StartCallTimer;
  /** Called once when the connection has ended, for whatever reason. */
  onEnd(): void;
};

/** An open connection. Calls are sent at once, and the server processes them one after the other. */
export class Session {
  #client: Client;
  #options: SessionOptions;
  #hasEnded = false;
  /** Whether the current call was committed although no synchronous replica has confirmed it. */
  #isUnconfirmed = false;

  constructor(client: Client, options: SessionOptions) {
    this.#client = client;
    this.#options = options;
    client.once('end', () => this.destroy());
    client.once('error', () => this.destroy());
    // PostgreSQL reports success if a commit that waits for a synchronous replica is cancelled.
    client.on('notice', ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') this.#isUnconfirmed = true;
    });
  }

  /**
   * Sends a call and returns the rows. Ends the connection if they do not arrive within `timeout` milliseconds, because
   * all later calls would wait too.
   *
   * @throws the error of the driver, or another error if the connection has ended or the timeout has passed
   */
  call<Row extends QueryResultRow>(
    { name, text }: Statement,
    values: unknown[],
    timeout: number,
  ): Promise<Row[]> {
    const { prepare, startTimer } = this.#options;
    return new Promise((resolve, reject) => {
      let isPending = true;
      const expire = () => {
        if (!isPending) return;
        reject(new Error(`no response within ${Math.round(timeout)} ms`));
        this.destroy();
      };
      // After a pause of this process, timers run first. `setImmediate` lets Node read a response that has arrived meanwhile.
      const timer = startTimer(() => setImmediate(expire), timeout);
      // The driver calls the callback before it handles the next call, so that `#isUnconfirmed` belongs to this call.
      this.#client.query<Row>(prepare ? { name, text, values } : { text, values }, (error, result) => {
        isPending = false;
        clearTimeout(timer);
        if (error) reject(error);
        else if (this.#isUnconfirmed) reject(new Error('no synchronous replica has confirmed the commit'));
        else resolve(result.rows);
        this.#isUnconfirmed = false;
      });
    });
  }

  /** Ends the connection. Calls that have no result yet are rejected. */
  destroy(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#client.connection.stream.destroy();
    this.#options.onEnd();
  }

  /** Ends the connection as the protocol says, or by force after `timeout` milliseconds. All calls must have ended. */
  async close(timeout: number): Promise<void> {
    const timer = this.#options.startTimer(() => this.destroy(), timeout);
    await this.#client.end();
    clearTimeout(timer);
  }
}
