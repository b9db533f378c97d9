import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { ErrorCode } from '../../contract/error-codes.ts';
import { ServiceError } from '../http-errors.ts';
import type { RequestContext } from '../request/context.ts';
import type { SentResponse } from '../response.ts';

/** How many requests are kept, how many bytes of each body, and how many bytes of all bodies together. */
export const MAX_REQUESTS = 1_000;
export const MAX_RECORDED_BODY = 16 * 1024;
const MAX_ALL_BODIES = 8 * 1024 * 1024;

/** How many requests may wait for a further request. Each of them occupies a connection. */
export const MAX_WAITERS = 32;

const CURSOR = /^([0-9a-f]{8})-(\d{1,15})$/;

/**
 * The first bytes of a body. In the encoding latin1, each character of `text` is one byte. `bytes` is the size of the whole
 * body. `text` is undefined if it was dropped, because bodies of later requests need the memory.
 */
export type RecordedBody = { text: string | undefined; encoding: 'latin1' | 'utf8'; bytes: number };

/** A request and its response, as the service handled them. They contain secrets, which `describeRequest` removes. */
export type Exchange = {
  context: RequestContext;
  /** When the response was sent, in milliseconds since the epoch. */
  time: number;
  milliseconds: number;
  status: number;
  code: ErrorCode | undefined;
  /** The names and values of the request's headers, by turns. */
  headers: readonly string[];
  body: RecordedBody | undefined;
  /** The response; undefined if it is not known, because it interrupted the request. */
  sent: SentResponse | undefined;
};

export type RecordedRequest = Omit<Exchange, 'sent'> & {
  responseHeaders: readonly string[] | undefined;
  responseBody: RecordedBody | undefined;
};

type Matches = (recorded: RecordedRequest) => boolean;

export type Recorder = ReturnType<typeof createRecorder>;

/**
 * Keeps the latest requests in memory for `GET /requests` (docs/service.md 13.1). A recorded request refers to objects that
 * exist anyway: they are turned into text only when somebody asks for them.
 */
export function createRecorder({
  sleep,
}: {
  /** Waits; rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}) {
  // Cursors of an earlier start mean other requests.
  const startId = randomBytes(4).toString('hex');
  const recorded: RecordedRequest[] = [];
  let count = 0;
  let bodyBytes = 0;
  /** Requests with lower numbers have no bodies any more. */
  let firstWithBodies = 0;
  let isStopping = false;
  const counted = new WeakSet<RecordedBody>();
  const waiters = new Map<AbortController, Matches>();

  function charge(bytes: number): void {
    bodyBytes += bytes;
    while (bodyBytes > MAX_ALL_BODIES) dropBodies();
  }

  function dropBodies(): void {
    const oldest = recorded[firstWithBodies++ % MAX_REQUESTS];
    for (const body of [oldest?.body, oldest?.responseBody]) {
      if (body === undefined) continue;
      bodyBytes -= body.text?.length ?? 0;
      body.text = undefined;
    }
  }

  return {
    /** Records the body of a request if something reads it, or if Node discards it after the response. */
    recordBody(request: IncomingMessage): RecordedBody {
      const body: RecordedBody = { text: '', encoding: 'latin1', bytes: 0 };
      // The service must decide whether the body is read, so wait until it begins to read.
      request.once('resume', () => {
        request.on('data', (chunk: Buffer) => {
          body.bytes += chunk.length;
          if (body.text === undefined || body.text.length >= MAX_RECORDED_BODY) return;
          const kept = chunk.toString('latin1', 0, MAX_RECORDED_BODY - body.text.length);
          body.text += kept;
          if (counted.has(body)) charge(kept.length);
        });
      });
      return body;
    },

    /** Adds a request when its response was sent. */
    add({ context, time, milliseconds, status, code, headers, body, sent }: Exchange): void {
      if (count - firstWithBodies >= MAX_REQUESTS) dropBodies();
      const responseBody = sent && context.method !== 'HEAD' ? bodyOf(sent) : undefined;
      const added: RecordedRequest = {
        context,
        time,
        milliseconds,
        status,
        code,
        headers,
        body,
        responseHeaders: sent?.headers,
        responseBody,
      };
      recorded[count++ % MAX_REQUESTS] = added;
      if (body) counted.add(body);
      charge((body?.text?.length ?? 0) + (responseBody?.text?.length ?? 0));
      if (waiters.size === 0) return;
      for (const [waiter, matches] of waiters) if (matches(added)) waiter.abort();
    },

    /** At most `limit` matching requests with numbers from `from` on, the newest first. */
    find(matches: Matches, from: number, limit: number): RecordedRequest[] {
      const found: RecordedRequest[] = [];
      const oldest = Math.max(from, count - MAX_REQUESTS, 0);
      for (let number = count - 1; number >= oldest && found.length < limit; number--) {
        const each = recorded[number % MAX_REQUESTS];
        if (each && matches(each)) found.push(each);
      }
      return found;
    },

    /**
     * Waits until a request matches, but no longer than `milliseconds`, than the connection exists, or than the server runs.
     *
     * @throws ServiceError 503 if too many requests wait
     */
    async wait(matches: Matches, milliseconds: number, socket: Socket): Promise<void> {
      if (isStopping || socket.destroyed) return;
      if (waiters.size >= MAX_WAITERS) {
        throw new ServiceError(
          'too_many_connections',
          `${MAX_WAITERS} requests are waiting, which is the limit`,
        );
      }
      const waiter = new AbortController();
      const end = () => waiter.abort();
      waiters.set(waiter, matches);
      socket.once('close', end);
      await sleep(milliseconds, waiter.signal).catch(() => {});
      socket.off('close', end);
      waiters.delete(waiter);
    },

    /** Ends all waiting. */
    stop(): void {
      isStopping = true;
      for (const waiter of waiters.keys()) waiter.abort();
    },

    /** The position after the latest request. */
    cursor: (): string => `${startId}-${count}`,

    /** The number of the first request after a cursor; 0 for a cursor of an earlier start. Undefined if it is not valid. */
    numberAfter(cursor: string): number | undefined {
      const [, start, number] = CURSOR.exec(cursor) ?? [];
      if (number === undefined) return undefined;
      return start === startId ? Number(number) : 0;
    },
  };
}

function bodyOf({ body, encoding, bytes }: SentResponse): RecordedBody {
  if (bytes <= MAX_RECORDED_BODY) return { text: body, encoding, bytes };
  // Copy the beginning: a slice of the string would keep the whole string in memory.
  const text = Buffer.from(body.slice(0, MAX_RECORDED_BODY), encoding).toString(
    'latin1',
    0,
    MAX_RECORDED_BODY,
  );
  return { text, encoding: 'latin1', bytes };
}
