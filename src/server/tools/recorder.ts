import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { MAX_FOREIGN_REQUESTS, MAX_RECORDED_REQUESTS } from '../../contract/recorded-text.ts';
import type { RecordedBody, RequestRecord } from '../request/record.ts';
import type { SentResponse } from '../response.ts';

/** The longest beginning of a body that `GET /requests` shows, in bytes (docs/testing.md). */
export const MAX_RECORDED_BODY = 16 * 1024;

/** The most memory for the headers and the beginnings of the bodies of all kept requests. */
const MAX_BYTES = 24 * 1024 * 1024;

const CURSOR = /^([0-9a-f]{8})-(\d{1,15})$/;

export type Recorder = ReturnType<typeof createRecorder>;

/** Keeps the latest requests in memory for `GET /requests` (docs/testing.md). */
export function createRecorder() {
  // Distinguishes cursors of this log from those before a restart or `clear`.
  let logId = randomBytes(4).toString('hex');
  /** The requests in the log, the oldest first, and the sum of their sizes. */
  let records: RequestRecord[] = [];
  let bytes = 0;
  let count = 0;

  return {
    add(record: RequestRecord, sent: SentResponse | undefined): void {
      record.number = ++count;
      if (sent && record.method !== 'HEAD') record.responseBody = bodyOf(sent);
      record.size +=
        record.url.length +
        lengthOf(record.sentHeaders) +
        lengthOf(record.responseHeaders) +
        record.responseBody.latin1.length;
      records.push(record);
      bytes += record.size;
      if (record.foreignOrigin !== undefined) {
        const foreign = records.filter((each) => each.foreignOrigin !== undefined);
        if (foreign[0] && foreign.length > MAX_FOREIGN_REQUESTS) {
          bytes -= foreign[0].size;
          records.splice(records.indexOf(foreign[0]), 1);
        }
      }
      while (records.length > MAX_RECORDED_REQUESTS || bytes > MAX_BYTES) bytes -= records.shift()?.size ?? 0;
    },

    read: (number: number) => records.find((each) => each.number === number),

    /** The requests after a number, the newest first. */
    after: (number: number) => records.filter((each) => each.number > number).reverse(),

    /** Empties the log. The numbers continue, and earlier cursors are before the next request. */
    clear(): void {
      logId = randomBytes(4).toString('hex');
      records = [];
      bytes = 0;
    },

    /** Changes if the log is no longer the continuation of what was read before. */
    logId: () => logId,

    cursor: (): string => `${logId}-${count}`,

    /** The number of the last request before a cursor; 0 if the cursor is of an earlier log, undefined if invalid. */
    numberAt(cursor: string): number | undefined {
      const [, id, number] = CURSOR.exec(cursor) ?? [];
      if (number === undefined) return undefined;
      return id === logId ? Number(number) : 0;
    },
  };
}

/** Records the beginning of the body of a request while it is read. */
export function recordBody(record: RequestRecord, request: IncomingMessage): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  if (length === undefined && coding === undefined) return;
  // The rest of the body may arrive after the response.
  record.size = MAX_RECORDED_BODY;
  // Listening to `data` would start to read the body, so wait until the service reads it, or Node after the response.
  request.once('resume', () => {
    request.on('data', (chunk: Buffer) => {
      const { latin1, bytes } = record.body;
      const more = chunk.toString('latin1', 0, MAX_RECORDED_BODY - latin1.length);
      record.body = { latin1: latin1 + more, bytes: bytes + chunk.length };
    });
  });
}

function lengthOf(texts: readonly string[]): number {
  let length = 0;
  for (const text of texts) length += text.length;
  return length;
}

function bodyOf({ body, encoding, bytes }: SentResponse): RecordedBody {
  if (encoding === 'latin1' && bytes <= MAX_RECORDED_BODY) return { latin1: body, bytes };
  // A part of a string would keep the whole string in memory, so make a new one.
  const beginning = Buffer.from(body.slice(0, MAX_RECORDED_BODY), encoding);
  return { latin1: beginning.toString('latin1', 0, MAX_RECORDED_BODY), bytes };
}

/** The recorded beginning of a body, whether it is only the beginning, and whether it is UTF-8. */
export function bodyText({ latin1, bytes }: RecordedBody) {
  const beginning = Buffer.from(latin1, 'latin1');
  return {
    ...{ text: beginning.toString(), bytes },
    ...{ isCutOff: beginning.length < bytes, isText: isUtf8(beginning) },
  };
}
