import { connect, type Socket } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import { type ErrorCode, errorCodes } from '../../src/contract/error-codes.ts';
import { expectDocumented } from './openapi.ts';
import { atLoopback } from './raw-requests.ts';
import { type ServiceOptions, start } from './service.ts';

/** A response parsed from the received bytes; header names are in lower case. */
export type RawResponse = { status: number; headers: Record<string, string>; body: string };

type RawOptions = {
  /** Closes the sending side of the connection after the bytes, and continues to read. */
  halfClose?: boolean;
};

/** Sends bytes unchanged, and reads responses until the service closes the connection. */
export function sendRaw(
  port: number,
  bytes: string | Buffer,
  { halfClose = false }: RawOptions = {},
): Promise<RawResponse[]> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () =>
      halfClose ? socket.end(bytes) : socket.write(bytes),
    );
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('end', () => socket.end());
    socket.on('close', () => resolve(Buffer.concat(chunks)));
    // The service may close the connection while this side is still sending.
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (!['ECONNRESET', 'EPIPE'].includes(error.code ?? '')) reject(error);
    });
  }).then((received) => parseResponses(received as Buffer));
}

/** A connection that is closed after the test. */
export function connectTo(port: number): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}
export const nextData = (socket: Socket) => new Promise<Buffer>((resolve) => socket.once('data', resolve));
export const closed = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve));

/**
 * Starts the service on loopback and sends bytes to it. Checks that every error response is complete, that the document
 * of the service allows the first response, that the store has one animal for each 201, and that no internal error
 * occurred.
 */
export async function sendToService(bytes: string | Buffer, options: ServiceOptions & RawOptions = {}) {
  const service = await start({ ...atLoopback, ...options });
  const responses = await sendRaw(service.listening.port, bytes, options);
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
    if (!taken) throw new Error(`incomplete response: ${rest.toString('latin1', 0, 1_000)}`);
    responses.push(taken.response);
    rest = taken.rest;
  }
  return responses;
}

/** Whether a response has no body, whatever its Content-Length. `rest` are the bytes after the headers. */
export type IsBodiless = (rest: Buffer) => boolean;

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) [A-Z][A-Za-z '-]+$/;
const FIELD = /^([A-Za-z-]+): ([\x20-\x7e]*)$/;

/**
 * Takes the first response from the received bytes. Returns undefined if the response is not complete yet.
 *
 * @throws Error if the bytes are not a valid HTTP/1.1 response, or if a header occurs twice
 */
export function takeResponse(
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
    ...more,
  });
}
