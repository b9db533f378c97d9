import { connect } from 'node:net';
import { expect } from 'vitest';
import type { ErrorCode } from '../../src/contract/error-codes.ts';

/** A response parsed from the received bytes; header names are in lower case. */
export type RawAnswer = { status: number; headers: Record<string, string>; body: string };

export type RawOptions = {
  /** Closes the sending side of the connection after the bytes, and continues to read. */
  halfClose?: boolean;
};

/** Sends bytes unchanged, and reads responses until the service closes the connection. */
export async function sendRaw(
  port: number,
  bytes: string | Buffer,
  options?: RawOptions,
): Promise<RawAnswer[]> {
  return parseAnswers(await readToEnd(port, bytes, options));
}

function readToEnd(
  port: number,
  bytes: string | Buffer,
  { halfClose = false }: RawOptions = {},
): Promise<Buffer> {
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
  });
}

/** Splits received bytes into responses by their Content-Length. */
export function parseAnswers(bytes: Buffer): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) throw new Error(`half an answer: ${rest}`);
    const [line = '', ...fields] = rest.subarray(0, end).toString('latin1').split('\r\n');
    const headers = Object.fromEntries(
      fields.map((field) => {
        const colon = field.indexOf(':');
        return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()];
      }),
    );
    const length = Number(headers['content-length'] ?? 0);
    const body = rest.subarray(end + 4, end + 4 + length);
    answers.push({ status: Number(line.split(' ')[1]), headers, body: body.toString() });
    rest = rest.subarray(end + 4 + length);
  }
  return answers;
}

/** Checks what every error response has: the Error body, its content type, and the three rate-limit headers. */
export function expectError(answer: RawAnswer | undefined, status: number, code: ErrorCode): void {
  expect(answer, `an answer ${status}`).toBeDefined();
  const { headers, body } = answer as RawAnswer;
  expect((answer as RawAnswer).status).toBe(status);
  expect(JSON.parse(body)).toEqual({ code, message: expect.any(String), status });
  expect(headers['content-type']).toBe('application/json');
  expectRateLimit(headers);
}

/** Checks the three rate-limit headers that every response has (docs/service.md 8.3). */
export function expectRateLimit(headers: Record<string, string>): void {
  expect(headers['x-ratelimit-limit']).toMatch(/^[1-9]\d*$/);
  expect(headers['x-ratelimit-remaining']).toMatch(/^\d+$/);
  expect(headers['x-ratelimit-reset']).toMatch(/^[1-9]\d*$/);
}
