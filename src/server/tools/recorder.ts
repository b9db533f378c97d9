import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { SteadyClock } from '../../contract/clock.ts';
import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { MAX_RECORDED_BODY } from '../../contract/recorded-text.ts';
import type { RequestContext } from '../request/context.ts';
import { hasBody } from '../request/input.ts';
import type { SentResponse } from '../response.ts';

/** How many requests are kept, and how many bytes of all bodies and of all headers together. */
export const MAX_REQUESTS = 1_000;
const MAX_ALL_BODIES = 8 * 1024 * 1024;
/** The headers of one request have at most 8 KiB. */
const MAX_ALL_HEADS = 16 * 1024 * 1024;

const CURSOR = /^([0-9a-f]{8})-(\d{1,15})$/;

/** How a request ended. */
export type RequestEnd = {
  /** In milliseconds since the epoch. */
  time: number;
  milliseconds: number;
  /** 0 if the client gave up before a response. */
  status: number;
  /** The code and the message of an error. */
  code?: ErrorCode | undefined;
  message?: string | undefined;
  /** The response; undefined if it is not known, because it interrupted the request. */
  sent?: SentResponse | undefined;
};

/** The texts that are recorded of each request, besides its headers and bodies. */
const TEXTS = [
  'id',
  'client',
  'method',
  'url',
  'operation',
  'keyName',
  'code',
  'message',
  'injected',
] as const;

/** The numbers that are recorded of each request, in columns. */
const createColumns = () => ({
  time: column(),
  milliseconds: column(),
  status: column(),
  latency: column(),
  /** The number of the request that this one repeats; 0 for other requests. */
  again: column(),
  limit: column(),
  remaining: column(),
  resetAt: column(),
  isDay: column(),
  isCounted: column(),
  headerTexts: column(),
  bodyBytes: column(),
  responseBytes: column(),
});
const column = () => new Float64Array(MAX_REQUESTS);

type Texts = Record<(typeof TEXTS)[number], string>;
type Numbers = Record<keyof ReturnType<typeof createColumns>, number>;

/** The beginning of a body. `text` is undefined if it was overwritten. `isText`: whether it is valid UTF-8. */
export type RecordedBody = { text: string | undefined; bytes: number; isCutOff: boolean; isText: boolean };

/** A request that was recorded. It contains secrets, which `createRequestDescriber` removes. */
export type RecordedRequest = Texts &
  Numbers & {
    /** Its number in the log of this start, from 1. Clients choose ids, which can repeat. */
    number: number;
    headers: readonly string[];
    body: RecordedBody;
    /** Empty if the response is not known. */
    responseHeaders: readonly string[];
    responseBody: RecordedBody;
  };

/** Requests of websites from origins that `--cors` does not allow, which are only counted. `origin` is the latest one. */
export type OtherOrigins = { requests: number; origin: string; time: number };

/**
 * A client may close its sending side together with its request, and still wait for the response. If it closes the connection
 * later than this, in milliseconds, it has given up.
 */
const HALF_CLOSE = 20;

const MAX_ORIGIN = 200;

/**
 * How many requests are recorded per minute that do not show who sent them, and that any website can therefore send as often as
 * it likes: those that are not valid HTTP, and those with a Host that is not allowed. The others are only counted.
 */
const MAX_STRAY = 20;

/** A request that has arrived, and has no response yet. */
export type RunningRequest = {
  context: RequestContext;
  socket: Socket | undefined;
  /** The headers, alternately: name, value, name, value. */
  headers: readonly string[];
  /** The beginning of the body, as far as it has arrived. Each character is one byte. `bodyBytes` is its full size. */
  body: string;
  bodyBytes: number;
  /** The number in the log; 0 until the request has ended. */
  number: number;
};

export type Recorder = ReturnType<typeof createRecorder>;

export type RecorderOptions = {
  clock: SteadyClock;
  /** The origins whose requests are recorded; `*` allows every origin. */
  cors: readonly string[];
};

/** Keeps the latest requests in memory for `GET /requests` (docs/service.md 13.1). */
export function createRecorder({ clock, cors }: RecorderOptions) {
  // Distinguishes cursors of this start from those of earlier starts, whose numbers mean other requests.
  const startId = randomBytes(4).toString('hex');
  const running = new Set<RunningRequest>();
  const watched = new WeakSet<Socket>();
  let others: OtherOrigins | undefined;
  let stray = { minute: 0, requests: 0 };
  /** The numbers of requests that are sent again, by the ids that they will have. */
  const repeats = new Map<string, number>();
  const emitter = new EventEmitter<{ request: [RunningRequest] }>();
  // Each request that waits for others adds a listener, so many listeners are not a leak.
  emitter.setMaxListeners(0);
  const columns = createColumns();
  const heads = new ByteRing(MAX_ALL_HEADS, MAX_REQUESTS);
  // The body of each request, and that of its response.
  const bodies = new ByteRing(MAX_ALL_BODIES, 2 * MAX_REQUESTS);
  let count = 0;

  const isKept = (number: number): boolean => number > 0 && number > count - MAX_REQUESTS && number <= count;
  const slotOf = (number: number): number => number % MAX_REQUESTS;

  function countOther(origin: string): void {
    const requests = (others?.requests ?? 0) + 1;
    others = { requests, origin: origin.slice(0, MAX_ORIGIN), time: clock.now() };
  }

  /** Whether a request is one too many of those that any website can send (`MAX_STRAY`). */
  function isStray({ method }: RequestContext, { status, time }: RequestEnd): boolean {
    if (method !== '-' && status !== errorCodes.misdirected_request) return false;
    const minute = Math.floor(time / 60_000);
    stray = { minute, requests: stray.minute === minute ? stray.requests + 1 : 1 };
    return stray.requests > MAX_STRAY;
  }

  function recordBody(request: IncomingMessage, recorded: RunningRequest): void {
    // Listening to `data` would start the body, so wait until the service or Node starts it.
    request.once('resume', () => {
      request.on('data', (chunk: Buffer) => {
        const isFirst = recorded.bodyBytes === 0;
        const left = MAX_RECORDED_BODY - recorded.body.length;
        if (left > 0) recorded.body += chunk.toString('latin1', 0, left);
        recorded.bodyBytes += chunk.length;
        if (!isKept(recorded.number)) return;
        // Node discards a body that the service did not read, after the response. Only its first part is kept.
        const slot = slotOf(recorded.number);
        columns.bodyBytes[slot] = recorded.bodyBytes;
        if (isFirst) bodies.write(2 * slot, recorded.body, 'latin1');
      });
    });
  }

  /** Records the requests whose clients do not wait for the responses any more. */
  function endRequestsOf(socket: Socket): void {
    const now = clock.elapsed();
    for (const request of running) {
      const { started, isFinished } = request.context;
      if (request.socket !== socket || isFinished) continue;
      if (socket.destroyed || now - started > HALF_CLOSE)
        end(request, { time: clock.now(), milliseconds: now - started, status: 0 });
    }
  }

  /** Reads a recorded request; undefined if it is no longer kept. */
  function read(number: number): RecordedRequest | undefined {
    const slot = slotOf(number);
    const head = isKept(number) ? heads.read(slot)?.toString('latin1').split('\n') : undefined;
    if (head === undefined) return undefined;
    const entries = Object.entries(columns).map(([name, values]) => [name, values[slot]]);
    const values = Object.fromEntries(entries) as Numbers;
    const texts = Object.fromEntries(TEXTS.map((name, i) => [name, head[i]])) as Texts;
    const lines = head.slice(TEXTS.length, -1);
    return {
      ...values,
      ...texts,
      message: fromLine(texts.message),
      injected: fromLine(texts.injected),
      number,
      headers: lines.slice(0, values.headerTexts),
      body: readBody(2 * slot, values.bodyBytes),
      responseHeaders: lines.slice(values.headerTexts),
      responseBody: readBody(2 * slot + 1, values.responseBytes),
    };
  }

  function readBody(slot: number, bytes: number): RecordedBody {
    if (bytes === 0) return { text: '', bytes, isCutOff: false, isText: true };
    const part = bodies.read(slot);
    const isCutOff = part !== undefined && part.length < bytes;
    return { text: part?.toString(), bytes, isCutOff, isText: part !== undefined && isUtf8(part) };
  }

  /** Adds a request to the log, unless its client has given up. */
  function end(request: RunningRequest, ended: RequestEnd): void {
    if (!running.delete(request)) return;
    const { context, headers, body, bodyBytes } = request;
    if (isStray(context, ended)) {
      countOther('unknown');
      return;
    }
    const { time, milliseconds, status, code, message, sent } = ended;
    const { window, limits } = context;
    const texts: Texts = {
      id: context.id,
      client: context.client,
      method: context.method,
      url: context.url,
      operation: context.operation ?? '',
      keyName: context.keyName ?? '',
      code: code ?? '',
      message: toLine(message),
      injected: toLine(context.injected),
    };
    request.number = ++count;
    const slot = slotOf(count);
    const hasResponseBody = sent !== undefined && context.method !== 'HEAD';
    columns.time[slot] = time;
    columns.milliseconds[slot] = milliseconds;
    columns.status[slot] = status;
    columns.latency[slot] = context.latency;
    columns.again[slot] = repeats.size === 0 ? 0 : (repeats.get(context.id) ?? 0);
    columns.limit[slot] = window?.limit ?? 0;
    columns.remaining[slot] = window?.remaining ?? 0;
    columns.resetAt[slot] = window?.resetAt ?? 0;
    columns.isDay[slot] = limits !== undefined && limits.window === limits.windows.day ? 1 : 0;
    columns.isCounted[slot] = context.isCounted ? 1 : 0;
    columns.headerTexts[slot] = headers.length;
    columns.bodyBytes[slot] = bodyBytes;
    columns.responseBytes[slot] = hasResponseBody ? sent.bytes : 0;
    // Each text and each line ends with a line break, and none of them contains one.
    let head = '';
    for (const name of TEXTS) head += `${texts[name]}\n`;
    for (const lines of [headers, sent?.headers ?? []]) if (lines.length > 0) head += `${lines.join('\n')}\n`;
    heads.write(slot, head, 'latin1', head.length);
    if (bodyBytes > 0) bodies.write(2 * slot, body, 'latin1');
    if (hasResponseBody && sent.bytes > 0) bodies.write(2 * slot + 1, sent.body, sent.encoding);
    emitter.emit('request', request);
  }

  return {
    /**
     * Records a request from its arrival; without `request`, one that is not valid HTTP. Call `end` once.
     *
     * @returns undefined if the request is only counted
     */
    begin(context: RequestContext, request?: IncomingMessage): RunningRequest | undefined {
      const origin = request && otherOrigin(request, cors);
      if (origin !== undefined) {
        countOther(origin);
        return undefined;
      }
      const socket = request?.socket;
      const headers = request?.rawHeaders ?? [];
      const begun: RunningRequest = { context, socket, headers, body: '', bodyBytes: 0, number: 0 };
      running.add(begun);
      if (request && hasBody(request)) recordBody(request, begun);
      if (socket && !watched.has(socket)) {
        watched.add(socket);
        for (const event of ['end', 'close']) socket.once(event, () => endRequestsOf(socket));
      }
      return begun;
    },

    end,

    /** Emits each request when it is in the log. */
    ended: emitter,

    otherOrigins: () => others,

    repeats,

    /** The requests that have no response yet, the newest first. */
    running: (): RunningRequest[] => [...running].reverse(),

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

    /** The number of the last request before a cursor; 0 for one from before the start. Undefined if it is not valid. */
    numberAt(cursor: string): number | undefined {
      const [, start, number] = CURSOR.exec(cursor) ?? [];
      if (number === undefined) return undefined;
      return start === startId ? Number(number) : 0;
    },
  };
}

/**
 * The origin of a request that a browser sends for another website, unless `cors` allows it; undefined for all other requests.
 * A browser that does not send Sec-Fetch-Site sends Origin with requests that need CORS.
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

/** A text on one line, in which each character is one byte. */
const toLine = (text = ''): string => Buffer.from(text).toString('latin1').replaceAll('\n', ' ');
const fromLine = (line: string): string => Buffer.from(line, 'latin1').toString();

/**
 * Keeps the latest texts, up to `size` bytes, outside the heap of V8. As objects, the texts would live long enough to be
 * copied by the garbage collector, which takes longer than to write them here.
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

  /** Writes at most `limit` bytes of a text in the place of the earlier text of a slot. */
  write(slot: number, text: string, encoding: 'latin1' | 'utf8', limit = MAX_RECORDED_BODY): void {
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

  /** The text of a slot, until the next write; undefined if it was overwritten. */
  read(slot: number): Buffer | undefined {
    const [start = 0, end = 0] = [this.#starts[slot], this.#ends[slot]];
    if (this.#bytes === undefined || start < this.#written - this.#size) return undefined;
    const first = start % this.#size;
    return this.#bytes.subarray(first, first + end - start);
  }
}
