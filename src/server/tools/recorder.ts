import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { SteadyClock } from '../../contract/clock.ts';
import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { MAX_RECORDED_BODY } from '../../contract/recorded-text.ts';
import type { RequestContext } from '../request/context.ts';
import { hasBody } from '../request/input.ts';
import type { SentResponse } from '../response.ts';

/** How many requests are kept, if `MAX_BYTES` suffice for their headers and the beginnings of their bodies. */
export const MAX_REQUESTS = 1_000;
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

/** The numbers and short texts of a recorded request. The longer texts are in a `ByteRing`. */
type Head = ReturnType<typeof headOf>;

/** Copies the fields of a request by their names, because copying with `...` takes ten times as long. */
function headOf(context: RequestContext, end: RequestEnd, responseBytes: number) {
  return {
    number: context.number,
    id: context.id,
    client: context.client,
    method: context.method,
    operation: context.operation,
    keyName: context.keyName,
    time: end.time,
    milliseconds: end.milliseconds,
    status: end.status,
    code: end.code,
    message: end.message,
    asked: context.asked,
    latency: context.latency,
    again: context.again,
    window: context.window,
    isDay: context.isDay,
    isCounted: context.isCounted,
    bodyBytes: context.bodyBytes,
    responseBytes,
  };
}

/** The beginning of a body, and the `bytes` of the whole body. `isText`: whether the beginning is valid UTF-8. */
export type RecordedBody = { text: string; bytes: number; isCutOff: boolean; isText: boolean };

/** Contains secrets, which `createRequestDescriber` removes. */
export type RecordedRequest = Omit<Head, 'bodyBytes' | 'responseBytes'> & {
  url: string;
  /** The headers, alternately: name, value, name, value. `responseHeaders` is empty if there was no response. */
  headers: readonly string[];
  responseHeaders: readonly string[];
  body: RecordedBody;
  responseBody: RecordedBody;
};

/** Requests that are only counted (see `begin` and `isStray`). `origin` and `time` are those of the latest one. */
export type UnrecordedRequests = { requests: number; origin: string; time: number };

const MAX_ORIGIN = 200;

/**
 * How many stray requests are recorded per minute; more are only counted. A request is stray if it is not valid HTTP or
 * its Host is not allowed. Such requests do not show who sent them, so any website could fill the log with them.
 */
const MAX_STRAY = 20;

export type Recorder = ReturnType<typeof createRecorder>;

export type RecorderOptions = {
  clock: SteadyClock;
  /** The other origins whose requests are recorded; `*` allows every origin. */
  cors: readonly string[];
};

/** Keeps the latest requests in memory for `GET /requests` (docs/testing.md). */
export function createRecorder({ clock, cors }: RecorderOptions) {
  // Distinguishes cursors of this start from those of earlier starts, whose numbers mean other requests.
  const startId = randomBytes(4).toString('hex');
  // A Set would keep every request alive until the next full garbage collection, because V8 chains the tables that a
  // growing Set replaces. On PostgreSQL, that took 7 µs of the 90 µs per creation.
  const running: RequestContext[] = [];
  let others: UnrecordedRequests | undefined;
  let stray = { minute: 0, requests: 0 };
  /** The numbers of the requests that the server is sending again, by the ids of the new requests. */
  const repeated = new Map<string, number>();
  const emitter = new EventEmitter<{ request: [] }>();
  // Each `GET /requests` that waits adds a listener, so many listeners are not a leak.
  emitter.setMaxListeners(0);
  const heads: Head[] = [];
  // For each request, its target and the headers of both sides, its body, and the body of its response.
  const texts = new ByteRing(MAX_BYTES, 3 * MAX_REQUESTS);
  let count = 0;

  const isKept = (number: number): boolean => number > 0 && number > count - MAX_REQUESTS && number <= count;
  const slotOf = (number: number): number => number % MAX_REQUESTS;

  function countOther(origin: string): void {
    const requests = (others?.requests ?? 0) + 1;
    others = { requests, origin: origin.slice(0, MAX_ORIGIN), time: clock.now() };
  }

  /** Whether a request is stray and exceeds `MAX_STRAY`. Counts each stray request. */
  function isStray({ method }: RequestContext, { status, time }: RequestEnd): boolean {
    if (method !== '-' && status !== errorCodes.misdirected_request) return false;
    const minute = Math.floor(time / 60_000);
    stray = { minute, requests: stray.minute === minute ? stray.requests + 1 : 1 };
    return stray.requests > MAX_STRAY;
  }

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

  /** Reads a recorded request; undefined if it is no longer kept. */
  function read(number: number): RecordedRequest | undefined {
    if (!isKept(number)) return undefined;
    const slot = slotOf(number);
    const head = heads[slot];
    const [lines, body, response] = [0, 1, 2].map((part) => texts.read(3 * slot + part));
    if (!head || !lines || !body || !response) return undefined;
    const { bodyBytes, responseBytes, ...fields } = head;
    const [url = '', headers, responseHeaders] = lines.toString('latin1').split('\n');
    return {
      ...fields,
      url,
      headers: headersIn(headers),
      responseHeaders: headersIn(responseHeaders),
      body: describeBody(body, bodyBytes),
      responseBody: describeBody(response, responseBytes),
    };
  }

  /** Adds a running request to the log, or only counts it if `isStray`. Does nothing for other requests. */
  function end(context: RequestContext, ended: RequestEnd): void {
    const index = running.indexOf(context);
    if (index === -1) return;
    running.splice(index, 1);
    if (isStray(context, ended)) {
      countOther('unknown');
      return;
    }
    context.number = ++count;
    save(context, ended);
    emitter.emit('request');
    const { number, request } = context;
    // If the service did not read the body, Node reads and discards it after the response. Then save it, too.
    if (request && hasBody(request) && !request.readableEnded)
      request.once('close', () => isKept(number) && save(context, ended));
  }

  function save(context: RequestContext, ended: RequestEnd): void {
    const { sent } = ended;
    const hasResponseBody = sent !== undefined && context.method !== 'HEAD';
    const slot = slotOf(context.number);
    heads[slot] = headOf(context, ended, hasResponseBody ? sent.bytes : 0);
    // LF separates the lines, and CR the headers, which contain neither. JSON of them would take three times as long.
    const lines = [context.url, context.sentHeaders.join('\r'), sent?.headers.join('\r')];
    texts.write(3 * slot, lines.join('\n'), 'latin1');
    texts.write(3 * slot + 1, context.body, 'latin1', MAX_RECORDED_BODY);
    texts.write(3 * slot + 2, hasResponseBody ? sent.body : '', sent?.encoding ?? 'utf8', MAX_RECORDED_BODY);
  }

  return {
    /** Records a request from its arrival, or only counts it if it has an `otherOrigin`. Call `end` once. */
    begin(context: RequestContext): void {
      const { request, id } = context;
      const origin = request && otherOrigin(request, cors);
      if (origin !== undefined) {
        countOther(origin);
        return;
      }
      if (repeated.size > 0) context.again = repeated.get(id);
      // From now on, other clients can learn the id from the log. Their requests must not count as repetitions.
      if (context.again !== undefined) repeated.delete(id);
      running.push(context);
      if (request && hasBody(request)) recordBody(request, context);
    },

    end,

    /** Emits an event for each request when it is in the log. */
    ended: emitter,

    otherOrigins: () => others,

    repeated,

    /** The requests that have no response yet, the newest first. */
    running: (): RequestContext[] => [...running].reverse(),

    read,

    /** Finds at most `limit` matching requests, the newest first. Their numbers are higher than `after`. */
    find(matches: (recorded: RecordedRequest) => boolean, after: number, limit: number): RecordedRequest[] {
      const found: RecordedRequest[] = [];
      for (let number = count; number > after && isKept(number) && found.length < limit; number--) {
        const each = read(number);
        if (each && matches(each)) found.push(each);
      }
      return found;
    },

    /** The number of the latest request. */
    count: () => count,

    /** The position after the latest request. */
    cursor: (): string => `${startId}-${count}`,

    /** The number of the last request before a cursor; 0 if the cursor is of an earlier start, undefined if invalid. */
    numberAt(cursor: string): number | undefined {
      const [, start, number] = CURSOR.exec(cursor) ?? [];
      if (number === undefined) return undefined;
      return start === startId ? Number(number) : 0;
    },
  };
}

/**
 * The origin of a request that a browser sends for another website, unless `cors` allows it; undefined for all
 * other requests. A browser that does not send Sec-Fetch-Site sends Origin with requests that need CORS.
 */
function otherOrigin({ headers }: IncomingMessage, cors: readonly string[]): string | undefined {
  const { 'sec-fetch-site': site, origin, host, referer = '' } = headers;
  if (site === undefined && origin === undefined) return undefined;
  const isOther =
    site === undefined
      ? origin?.replace(/^https?:\/\//, '') !== host
      : site === 'cross-site' || site === 'same-site';
  if (!isOther || cors.includes('*') || (origin !== undefined && cors.includes(origin))) return undefined;
  return origin ?? (URL.canParse(referer) ? new URL(referer).origin : 'unknown');
}

const headersIn = (line = ''): string[] => (line === '' ? [] : line.split('\r'));

const describeBody = (beginning: Buffer, bytes: number): RecordedBody => ({
  text: beginning.toString(),
  bytes,
  isCutOff: beginning.length < bytes,
  isText: isUtf8(beginning),
});

/**
 * Keeps the latest texts, up to `size` bytes, outside the heap of V8. As objects, the texts would live long enough to
 * be copied by the garbage collector, which takes longer than writing them here.
 */
class ByteRing {
  readonly #size: number;
  #bytes: Buffer | undefined;
  /** The position of the next write. Positions never start again at 0, and some are skipped at the end of the ring. */
  #written = 0;
  /** The positions where the text of each slot begins and ends. */
  readonly #starts: Float64Array;
  readonly #ends: Float64Array;

  constructor(size: number, slots: number) {
    this.#size = size;
    this.#starts = new Float64Array(slots);
    this.#ends = new Float64Array(slots);
  }

  /** Writes at most `limit` bytes of a text, which replaces the earlier text of the slot. */
  write(slot: number, text: string, encoding: 'latin1' | 'utf8', limit = this.#size): void {
    // The operating system provides this memory only as far as it is written to.
    this.#bytes ??= Buffer.allocUnsafeSlow(this.#size);
    const length = Math.min(limit, encoding === 'latin1' ? text.length : text.length * 3);
    // A text is never split: if it may not fit before the end of the ring, it is written to the beginning.
    const left = this.#size - (this.#written % this.#size);
    if (length > left) this.#written += left;
    this.#starts[slot] = this.#written;
    this.#written += this.#bytes.write(text, this.#written % this.#size, length, encoding);
    this.#ends[slot] = this.#written;
  }

  /** The text of a slot; undefined if it was overwritten. The buffer is valid until the next write. */
  read(slot: number): Buffer | undefined {
    const [start = 0, end = 0] = [this.#starts[slot], this.#ends[slot]];
    if (this.#bytes === undefined || start < this.#written - this.#size) return undefined;
    const first = start % this.#size;
    return this.#bytes.subarray(first, first + end - start);
  }
}
