import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { MAX_FOREIGN, MAX_RECORDED_BODY, MAX_REQUESTS } from '../../contract/recorded-text.ts';
import { hostOfOrigin } from '../request/checks.ts';
import type { RequestContext } from '../request/context.ts';
import { hasBody } from '../request/input.ts';
import type { SentResponse } from '../response.ts';

/** The most memory for the headers and the beginnings of the bodies of all kept requests. */
const MAX_BYTES = 24 * 1024 * 1024;

const CURSOR = /^([0-9a-f]{8})-(\d{1,15})$/;

export type RequestEnd = {
  /** When the request ended, in milliseconds since the epoch. */
  time: number;
  milliseconds: number;
  /** In the log of the tools, 0 if the client gave up before a response. */
  status: number;
  /** The code and the message of an error response. */
  code?: ErrorCode | undefined;
  message?: string | undefined;
  /** The response; undefined if none was sent. */
  sent?: SentResponse | undefined;
};

/** The beginning of a body; each character is one byte. `bytes` is the size of the whole body. */
type RecordedBody = { latin1: string; bytes: number };

/** A request and its response. Contains secrets, which `createRequestDescriber` removes. */
export type RecordedRequest = ReturnType<typeof recordOf>;

/**
 * The record of a request that has ended. `cors` has the other origins whose pages may use the service. Copies the fields
 * by their names, because copying with `...` takes ten times as long.
 */
export function recordOf(context: RequestContext, end: RequestEnd, cors: readonly string[]) {
  const body: RecordedBody = { latin1: context.body, bytes: context.bodyBytes };
  const responseHeaders: readonly string[] = end.sent?.headers ?? [];
  const responseBody = bodyOf(context.method === 'HEAD' ? undefined : end.sent);
  const inHeaders = context.url.length + lengthOf(context.sentHeaders) + lengthOf(responseHeaders);
  return {
    number: context.number,
    id: context.id,
    client: context.client,
    method: context.method,
    url: context.url,
    operation: context.operation,
    keyName: context.keyName,
    /** The headers, alternately: name, value, name, value. `responseHeaders` is empty if there was no response. */
    sentHeaders: context.sentHeaders,
    body,
    time: end.time,
    milliseconds: end.milliseconds,
    status: end.status,
    code: end.code,
    message: end.message,
    asked: context.asked,
    rule: context.rule,
    latency: context.latency,
    again: context.again,
    window: context.window,
    isDay: context.isDay,
    isCounted: context.isCounted,
    foreignOrigin: foreignOrigin(context, end, cors),
    responseHeaders,
    responseBody,
    /** The characters in all texts, each of which needs one byte. */
    size: inHeaders + body.latin1.length + responseBody.latin1.length,
  };
}

function lengthOf(texts: readonly string[]): number {
  let length = 0;
  for (const text of texts) length += text.length;
  return length;
}

function bodyOf(sent: SentResponse | undefined): RecordedBody {
  if (sent === undefined) return { latin1: '', bytes: 0 };
  const { body, encoding, bytes } = sent;
  if (encoding === 'latin1' && bytes <= MAX_RECORDED_BODY) return { latin1: body, bytes };
  // A part of a string would keep the whole string in memory, so make a new one.
  const beginning = Buffer.from(body.slice(0, MAX_RECORDED_BODY), encoding);
  return { latin1: beginning.toString('latin1', 0, MAX_RECORDED_BODY), bytes };
}

export type Recorder = ReturnType<typeof createRecorder>;

/**
 * Keeps the latest requests in memory for `GET /requests` (docs/testing.md). `cors` has the other origins whose pages may
 * use the service; `*` allows every origin.
 */
export function createRecorder(cors: readonly string[]) {
  // Distinguishes cursors of this log from those before a restart or `clear`.
  let logId = randomBytes(4).toString('hex');
  /** The requests in the log, the oldest first, and the sum of their sizes. */
  let records: RecordedRequest[] = [];
  let bytes = 0;
  let count = 0;
  /** The numbers of the requests that the server is sending again, by the ids of the new requests. */
  const repeated = new Map<string, number>();

  function recordBody(request: IncomingMessage, context: RequestContext): void {
    // Listening to `data` would start to read the body, so wait until the service or Node does.
    request.once('resume', () => {
      request.on('data', (chunk: Buffer) => {
        const left = MAX_RECORDED_BODY - context.body.length;
        if (left > 0) context.body += chunk.toString('latin1', 0, left);
        context.bodyBytes += chunk.length;
      });
    });
  }

  function add(record: RecordedRequest): void {
    records.push(record);
    bytes += record.size;
    if (record.foreignOrigin !== undefined) {
      const foreign = records.filter((each) => each.foreignOrigin !== undefined);
      if (foreign[0] && foreign.length > MAX_FOREIGN) {
        bytes -= foreign[0].size;
        records.splice(records.indexOf(foreign[0]), 1);
      }
    }
    while (records.length > MAX_REQUESTS || bytes > MAX_BYTES) bytes -= records.shift()?.size ?? 0;
  }

  return {
    /** Begins to record a request. Call `end` once. */
    begin(context: RequestContext): void {
      const { request, id } = context;
      if (repeated.size > 0) context.again = repeated.get(id);
      // When the request is in the log, other clients know the id. Their requests must not count as repetitions.
      if (context.again !== undefined) repeated.delete(id);
      context.isRecorded = true;
      if (request && hasBody(request)) recordBody(request, context);
    },

    /** Adds a request to the log, unless it is not recorded. */
    end(context: RequestContext, ended: RequestEnd): void {
      if (!context.isRecorded) return;
      context.number = ++count;
      const record = recordOf(context, ended, cors);
      add(record);
      const { request } = context;
      // If the service did not read the body, Node reads and discards it after the response. Then record it, too.
      if (request && hasBody(request) && !request.readableEnded)
        request.once('close', () => {
          if (!records.includes(record)) return;
          const more = context.body.length - record.body.latin1.length;
          bytes += more;
          record.size += more;
          record.body = { latin1: context.body, bytes: context.bodyBytes };
        });
    },

    repeated,

    /** Returns a recorded request; undefined if it is not in the log. */
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

    /** The position after the latest request. */
    cursor: (): string => `${logId}-${count}`,

    /** The number of the last request before a cursor; 0 if the cursor is of an earlier log, undefined if invalid. */
    numberAt(cursor: string): number | undefined {
      const [, id, number] = CURSOR.exec(cursor) ?? [];
      if (number === undefined) return undefined;
      return id === logId ? Number(number) : 0;
    },
  };
}

/**
 * Where a request came from that any website can cause: the origin of a page that may not use the service, or `unknown`.
 * A browser that does not send Sec-Fetch-Site sends Origin with requests that need CORS. Requests that are not HTTP or
 * have a wrong Host do not show who sent them. Undefined for all other requests.
 */
function foreignOrigin(
  { request }: RequestContext,
  { status }: RequestEnd,
  cors: readonly string[],
): string | undefined {
  if (request === undefined || status === errorCodes.misdirected_request) return 'unknown';
  const { 'sec-fetch-site': site, origin, host, referer = '' } = request.headers;
  if (site === undefined && origin === undefined) return undefined;
  const isForeign =
    site === undefined ? hostOfOrigin(origin) !== host : site === 'cross-site' || site === 'same-site';
  const from = origin ?? (URL.canParse(referer) ? new URL(referer).origin : 'unknown');
  return isForeign && !cors.includes('*') && !cors.includes(from) ? from.slice(0, MAX_ORIGIN) : undefined;
}

const MAX_ORIGIN = 200;

/** The recorded beginning of a body, whether it is only the beginning, and whether it is UTF-8. */
export function readBody({ latin1, bytes }: RecordedBody) {
  const beginning = Buffer.from(latin1, 'latin1');
  return {
    ...{ text: beginning.toString(), bytes },
    ...{ isCutOff: beginning.length < bytes, isText: isUtf8(beginning) },
  };
}
