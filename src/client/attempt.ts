import type { ClientError } from './errors.ts';
import type { ReplyHeaders } from './headers.ts';

/** One request as it is sent. */
export type Attempt = {
  method: 'GET' | 'POST';
  url: URL;
  headers: Record<string, string>;
  body?: string | undefined;
  /** For the whole attempt, from connecting to the last byte. */
  timeoutMilliseconds: number;
  signal: AbortSignal;
  /** Asked when the connection stands, right before the first byte is written: false holds the request back. */
  mayStart(): boolean;
};

export type Reply = { status: number; headers: ReplyHeaders; body: string };

/**
 * What became of an attempt. The failure is a NetworkError, a TimeoutError, a ContractError (a reply too large), an
 * InterruptedError or a HeldBackError.
 */
export type Outcome = { reply: Reply } | { failure: ClientError };

/** When an attempt got how far, in milliseconds from its start; undefined where it did not get there. */
export type Times = { connected?: number; firstByte?: number; whole: number };
