import { connect, type Socket } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import { type ErrorCode, errorCodes, plans } from '../../src/contract/api.ts';
import { allowedHosts } from '../../src/server/request/checks.ts';
import { expectDocumented } from './openapi.ts';
import { KEY, type ServiceOptions, start } from './service.ts';

// Requests and responses as bytes. Tests combine and damage the parts of these requests.

export const HOST = 'Host: 127.0.0.1\r\n';
export const AUTH = `Authorization: Bearer ${KEY}\r\n`;
export const CLOSE = 'Connection: close\r\n';
export const JSON_TYPE = 'Content-Type: application/json\r\n';
export const REX = '{"name":"Rex","categoryId":1}';

/** A GET request that asks the service to close the connection after the response. */
export const get = (target: string, headers = '') =>
  `GET ${target} HTTP/1.1\r\n${HOST}${AUTH}${headers}${CLOSE}\r\n`;
/** A request that keeps the connection open. `rest` follows the Host and Authorization headers. */
export const open = (method: string, target: string, rest = '\r\n') =>
  `${method} ${target} HTTP/1.1\r\n${HOST}${AUTH}${rest}`;
export const post = (body: string | Buffer, headers = JSON_TYPE) =>
  Buffer.concat([
    Buffer.from(`POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${headers}${CLOSE}`),
    Buffer.from(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`),
    Buffer.from(body),
  ]);
export const chunked = (rest: string) =>
  `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}${CLOSE}Transfer-Encoding: chunked\r\n\r\n${rest}`;

export const atLoopback: ServiceOptions = {
  hosts: allowedHosts({ host: '127.0.0.1', address: '127.0.0.1' }, []),
};
/** Options for a test that sends more requests than plan free allows. */
export const rich: ServiceOptions = { ...atLoopback, quota: plans.enterprise };

/** A response parsed from the received bytes; header names are in lower case. */
export type RawResponse = { status: number; headers: Record<string, string>; body: string };

/** A connection that buffers received bytes until they are read as responses. */
export class Connection {
  readonly socket: Socket;
  isClosed = false;
  #received: Buffer = Buffer.alloc(0);
  #onChange = () => {};

  /** With `isHalfOpen`, this side can send after the service has closed its side. */
  constructor(port: number, isHalfOpen = true) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: isHalfOpen, noDelay: true });
    this.socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#onChange();
    });
    // Ignore errors, because the test detects a broken connection by the missing responses.
    this.socket.on('error', () => {});
    for (const event of ['end', 'close']) {
      this.socket.on(event, () => {
        this.isClosed = true;
        this.#onChange();
      });
    }
  }

  /** Sends bytes in several writes. `cuts` are the positions between the writes, as fractions of the length. */
  async send(bytes: string | Buffer, cuts: readonly number[] = []): Promise<void> {
    const all = Buffer.from(bytes);
    let from = 0;
    for (const to of cuts.map((cut) => Math.floor(cut * all.length)).sort((a, b) => a - b)) {
      this.socket.write(all.subarray(from, to));
      from = to;
      await new Promise(setImmediate);
    }
    this.socket.write(all.subarray(from));
  }

  /** Sends a request, and returns the response to it. @throws Error if the connection was closed */
  async ask(bytes: string | Buffer): Promise<RawResponse> {
    await this.send(bytes);
    const response = await this.receive();
    if (response === undefined) throw new Error('no response');
    return response;
  }

  /**
   * The next response; undefined if the connection was closed.
   *
   * @throws Error if a response is invalid, or the connection was closed within it
   */
  async receive(isBodiless: IsBodiless = () => false): Promise<RawResponse | undefined> {
    for (;;) {
      const taken = takeResponse(this.#received, isBodiless);
      if (taken) {
        this.#received = taken.rest;
        return taken.response;
      }
      if (this.isClosed && this.#received.length > 0)
        throw new Error(`truncated response: ${legible(this.#received)}`);
      if (this.isClosed) return undefined;
      await this.#change();
    }
  }

  /** What the service sends until it closes the connection. */
  async rest(): Promise<Buffer> {
    while (!this.isClosed) await this.#change();
    this.socket.destroy();
    return this.#received;
  }

  /** Waits until data arrives or the connection ends. */
  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#onChange = resolve;
    });
  }
}

/** A connection that is closed after the test. */
export function connectTo(port: number, isHalfOpen = false): Connection {
  const connection = new Connection(port, isHalfOpen);
  onTestFinished(() => void connection.socket.destroy());
  return connection;
}

/** Sends bytes unchanged, and reads responses until the service closes the connection. */
export async function sendRaw(port: number, bytes: string | Buffer): Promise<RawResponse[]> {
  const connection = new Connection(port);
  await connection.send(bytes);
  return parseResponses(await connection.rest());
}

/**
 * Starts the service on loopback and sends bytes to it. Checks that every error response is complete, that the document
 * of the service allows the first response, that the store has one animal for each 201, and that no internal error
 * occurred.
 */
export async function sendToService(bytes: string | Buffer, options: ServiceOptions = {}) {
  const service = await start({ ...atLoopback, ...options });
  const responses = await sendRaw(service.listening.port, bytes);
  for (const response of responses) if (response.status >= 400) expectError(response);
  const [, method = '', path = ''] = /^([A-Z]+) (\S+) HTTP/.exec(bytes.toString('latin1')) ?? [];
  const first = responses.find(({ status }) => status >= 200);
  if (first)
    expectDocumented(method, path, { ...first, headers: new Headers(first.headers), text: first.body });
  const statuses = responses.map(({ status }) => status);
  expect(await service.store.size()).toBe(statuses.filter((status) => status === 201).length);
  expect(service.errors).toEqual([]);
  return { ...service, responses, statuses };
}

/** Splits received bytes into responses. @throws Error for an incomplete or invalid response */
export function parseResponses(bytes: Buffer): RawResponse[] {
  const responses: RawResponse[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    // If no JSON follows the headers, the response has no body. A response to HEAD still has a Content-Length.
    const taken = takeResponse(rest, (next) => !/^[{[]/.test(next.toString('latin1', 0, 1)));
    if (!taken) throw new Error(`incomplete response: ${legible(rest)}`);
    responses.push(taken.response);
    rest = taken.rest;
  }
  return responses;
}

/** Whether a response has no body, whatever its Content-Length. `rest` are the bytes after the headers. */
type IsBodiless = (rest: Buffer) => boolean;

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) [A-Z][A-Za-z '-]+$/;
const FIELD = /^([A-Za-z-]+): ([\x20-\x7e]*)$/;

/**
 * Takes the first response from the received bytes. Returns undefined if the response is not complete yet.
 *
 * @throws Error if the bytes are not a valid HTTP/1.1 response, or if a header occurs twice
 */
function takeResponse(
  bytes: Buffer,
  isBodiless: IsBodiless,
): { response: RawResponse; rest: Buffer } | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [line = '', ...fields] = bytes.subarray(0, end).toString('latin1').split('\r\n');
  const status = Number(STATUS_LINE.exec(line)?.[1]);
  if (Number.isNaN(status)) throw new Error(`not a status line: ${JSON.stringify(line)}`);
  const headers: Record<string, string> = {};
  for (const field of fields) {
    const [, name = '', value = ''] = FIELD.exec(field) ?? [];
    if (name === '' || name.toLowerCase() in headers)
      throw new Error(`invalid header: ${JSON.stringify(field)}`);
    headers[name.toLowerCase()] = value;
  }
  const rest = bytes.subarray(end + 4);
  if (status < 200 || status === 204 || isBodiless(rest)) {
    return { response: { status, headers, body: '' }, rest };
  }
  if (!/^\d+$/.test(headers['content-length'] ?? '')) throw new Error(`${status} without Content-Length`);
  const length = Number(headers['content-length']);
  if (rest.length < length) return undefined;
  const body = rest.toString('utf8', 0, length);
  return { response: { status, headers, body }, rest: rest.subarray(length) };
}

/** Checks the error code, the content type and the common headers of an error response. */
export function expectError({ status, headers, body }: RawResponse): void {
  const error = JSON.parse(body);
  expect(error).toEqual({ code: expect.any(String), message: expect.any(String), status });
  expect(errorCodes[error.code as ErrorCode]).toBe(status);
  expectCommonHeaders(headers, { 'content-type': 'application/json' });
}

/** Checks the headers that every response has (docs/service.md 8.3 and 10). */
export function expectCommonHeaders(headers: Record<string, string>, more: object = {}): void {
  expect(headers).toMatchObject({
    'x-request-id': expect.stringMatching(/^[A-Za-z0-9._-]{1,64}$/),
    'x-ratelimit-limit': expect.stringMatching(/^[1-9]\d*$/),
    'x-ratelimit-remaining': expect.stringMatching(/^\d+$/),
    'x-ratelimit-reset': expect.stringMatching(/^[1-9]\d*$/),
    'x-content-type-options': 'nosniff',
    ...more,
  });
}

/** Formats bytes for a failure message, and shortens long runs of one character. */
export const legible = (bytes: Buffer): string =>
  JSON.stringify(bytes.toString('latin1')).replace(/(.)\1{39,}/g, (run, char) => `${char}{${run.length}}`);
