import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { ErrorCode } from '../../contract/error-codes.ts';
import { MAX_RECORDED_BODY } from '../../contract/recorded-text.ts';
import type { RequestContext } from '../request/context.ts';
import type { SentResponse } from '../response.ts';
import { ByteRing } from './byte-ring.ts';

/** How many requests are kept, how many bytes of each body, and how many bytes of all bodies together. */
export const MAX_REQUESTS = 1_000;
const MAX_ALL_BODIES = 8 * 1024 * 1024;

/** The size of the ring for headers, in bytes. The headers of one request have at most 8 KiB. */
const MAX_ALL_HEADS = 16 * 1024 * 1024;

const CURSOR = /^([0-9a-f]{8})-(\d{1,15})$/;

/** The body of a request while it arrives. Each character of `text` is one byte; `bytes` is the size of the whole body. */
export type IncomingBody = {
  text: string;
  bytes: number;
  /** The number of the request, as soon as it is recorded. */
  number: number | undefined;
};

/** A request and its response, as the service handled them. */
export type Exchange = {
  context: RequestContext;
  /** When the response was sent, in milliseconds since the epoch. */
  time: number;
  milliseconds: number;
  status: number;
  code: ErrorCode | undefined;
  /** The names and values of the request's headers, by turns. */
  headers: readonly string[];
  body: IncomingBody | undefined;
  /** The response; undefined if it is not known, because it interrupted the request. */
  sent: SentResponse | undefined;
};

/** The beginning of a body. `text` is undefined if it was overwritten. */
export type RecordedBody = { text: string | undefined; bytes: number; isCutOff: boolean };

/** A request that was recorded. It contains secrets, which `createRequestDescriber` removes. */
export type RecordedRequest = {
  id: string;
  client: string;
  method: string;
  url: string;
  operation: string;
  keyName: string;
  code: string;
  isCounted: boolean;
  isInjected: boolean;
  /** The end of the rate-limit window or ban, in milliseconds since the epoch. */
  resetAt: number;
  time: number;
  milliseconds: number;
  status: number;
  headers: readonly string[];
  body: RecordedBody;
  /** Empty if the response is not known. */
  responseHeaders: readonly string[];
  responseBody: RecordedBody;
};

// The columns of a row: numbers, and the start, the end and the full size of each text.
const [TIME, DURATION, STATUS, RESET, HEAD, BODY, RESPONSE, COLUMNS] = [0, 1, 2, 3, 4, 6, 9, 12];
const BYTES = 2;

export type Recorder = ReturnType<typeof createRecorder>;

/**
 * Keeps the latest requests in memory for `GET /requests` (docs/service.md 13.1). After each request, calls
 * `onAdd` with a function that reads it.
 */
export function createRecorder(onAdd: (read: () => RecordedRequest | undefined) => void) {
  // Distinguishes cursors of this start from those of earlier starts, whose numbers mean other requests.
  const startId = randomBytes(4).toString('hex');
  const rows = new Float64Array(MAX_REQUESTS * COLUMNS);
  const heads = new ByteRing(MAX_ALL_HEADS);
  const bodies = new ByteRing(MAX_ALL_BODIES);
  let count = 0;

  const rowOf = (number: number): number => (number % MAX_REQUESTS) * COLUMNS;

  function writeBody(column: number, text: string, encoding: 'latin1' | 'utf8', bytes: number): void {
    bodies.write(text, encoding, MAX_RECORDED_BODY, rows, column);
    rows[column + BYTES] = bytes;
  }

  function readBody(column: number): RecordedBody {
    const [start = 0, end = 0, bytes = 0] = rows.subarray(column, column + 3);
    return { text: bodies.read(start, end, 'utf8'), bytes, isCutOff: end - start < bytes };
  }

  /** Reads a recorded request; undefined if its headers were overwritten. */
  function read(number: number): RecordedRequest | undefined {
    const row = rowOf(number);
    const [time = 0, milliseconds = 0, status = 0, resetAt = 0, start = 0, end = 0] = rows.subarray(row);
    const head = heads.read(start, end, 'latin1')?.split('\n');
    if (head === undefined) return undefined;
    const [id = '', client = '', method = '', url = '', operation = '', keyName = '', code = ''] = head;
    const [isCounted, isInjected, length, ...lines] = head.slice(7);
    return {
      ...{ id, client, method, url, operation, keyName, code, resetAt, time, milliseconds, status },
      isCounted: isCounted === 'true',
      isInjected: isInjected === 'true',
      headers: lines.slice(0, Number(length)),
      body: readBody(row + BODY),
      responseHeaders: lines.slice(Number(length)),
      responseBody: readBody(row + RESPONSE),
    };
  }

  return {
    /** Records the body of a request while the service reads it, or while Node discards it after the response. */
    recordBody(request: IncomingMessage): IncomingBody {
      const body: IncomingBody = { text: '', bytes: 0, number: undefined };
      // Listening to `data` would start the body, so wait until the service or Node starts it.
      request.once('resume', () => {
        request.on('data', (chunk: Buffer) => {
          const isFirst = body.bytes === 0;
          body.bytes += chunk.length;
          if (body.number === undefined) {
            const left = MAX_RECORDED_BODY - body.text.length;
            if (left > 0) body.text += chunk.toString('latin1', 0, left);
          } else if (count - body.number <= MAX_REQUESTS) {
            // Node discards a body that the service did not read. Only its first part is kept.
            const column = rowOf(body.number) + BODY;
            if (isFirst) writeBody(column, chunk.toString('latin1'), 'latin1', body.bytes);
            else rows[column + BYTES] = body.bytes;
          }
        });
      });
      return body;
    },

    /** Adds a request when its response was sent. */
    add({ context, time, milliseconds, status, code, headers, body, sent }: Exchange): void {
      const { id, client, method, url, operation, keyName, isCounted, isInjected, window } = context;
      const row = rowOf(count);
      rows.fill(0, row, row + COLUMNS);
      rows[row + TIME] = time;
      rows[row + DURATION] = milliseconds;
      rows[row + STATUS] = status;
      rows[row + RESET] = window?.resetAt ?? 0;
      // None of these texts contains a line break.
      let head = `${id}\n${client}\n${method}\n${url}\n${operation ?? ''}\n${keyName ?? ''}\n${code ?? ''}\n${isCounted}\n${isInjected}\n${headers.length}`;
      for (const lines of [headers, sent?.headers ?? []])
        if (lines.length > 0) head += `\n${lines.join('\n')}`;
      heads.write(head, 'latin1', head.length, rows, row + HEAD);
      if (body) {
        body.number = count;
        writeBody(row + BODY, body.text, 'latin1', body.bytes);
      }
      if (sent && method !== 'HEAD') writeBody(row + RESPONSE, sent.body, sent.encoding, sent.bytes);
      count++;
      onAdd(() => read(count - 1));
    },

    /** Finds at most `limit` matching requests, the newest first. Their numbers are at least `from`. */
    find(matches: (recorded: RecordedRequest) => boolean, from: number, limit: number): RecordedRequest[] {
      const found: RecordedRequest[] = [];
      const oldest = Math.max(from, count - MAX_REQUESTS, 0);
      for (let number = count - 1; number >= oldest && found.length < limit; number--) {
        const each = read(number);
        if (each && matches(each)) found.push(each);
      }
      return found;
    },

    /** The position after the latest request. */
    cursor: (): string => `${startId}-${count}`,

    /** The number of the first request after a cursor; 0 for a cursor from before the server was started. Undefined if it is not valid. */
    numberAfter(cursor: string): number | undefined {
      const [, start, number] = CURSOR.exec(cursor) ?? [];
      if (number === undefined) return undefined;
      return start === startId ? Number(number) : 0;
    },
  };
}
