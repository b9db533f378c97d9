import { beforeAll, expect, test } from 'vitest';
import { OutcomeUnknownError, TimeoutError } from '../../src/client/errors.ts';
import { createTransport } from '../../src/client/transport.ts';
import { add, callers, failureOf, testClient } from '../helpers/client.ts';
import { type Act, wireServer } from '../helpers/wire-server.ts';

// A service that stops in every phase: the attempt's own time ends it, whichever it is.

const TIMEOUT = 80;

const says =
  (text: string): Act =>
  (socket, _count, { line }) => {
    socket.write(text.replace('STATUS', line.startsWith('GET') ? '200 OK' : '201 Created'));
  };

// What a first request loads takes longer than the time of an attempt here.
beforeAll(async () => {
  const transport = createTransport({ clock: Date });
  const request = { method: 'GET', url: new URL('http://127.0.0.1:1/'), headers: {} } as const;
  const { signal } = new AbortController();
  await transport.send({ ...request, timeoutMilliseconds: 1_000, signal, mayStart: () => true });
  await transport.close();
});

test.each<[string, { protocol?: string; act?: Act; isSent: boolean }]>([
  ['in the TLS handshake', { protocol: 'https', isSent: false }],
  ['before it answers', { act: () => {}, isSent: true }],
  ['in the status line', { act: says('HTTP/1.1 20'), isSent: true }],
  ['behind an early hint', { act: says('HTTP/1.1 103 Early Hints\r\n\r\n'), isSent: true }],
  ['in the headers', { act: says('HTTP/1.1 STATUS\r\nContent-Type: appl'), isSent: true }],
  ['behind the headers', { act: says('HTTP/1.1 STATUS\r\nContent-Length: 9\r\n\r\n'), isSent: true }],
  ['in a body', { act: says('HTTP/1.1 STATUS\r\nContent-Length: 9\r\n\r\n[{'), isSent: true }],
  ['in a chunk', { act: says('HTTP/1.1 STATUS\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n[{'), isSent: true }],
  ['in a body without any framing', { act: says('HTTP/1.1 STATUS\r\n\r\n[{'), isSent: true }],
])('a service that stalls %s', async (_name, { protocol = 'http', act = () => {}, isSent }) => {
  // Side by side: each takes the time of its attempts.
  const runs = callers.map(async ({ call, isHonoured, isRepeated, name }) => {
    const server = await wireServer(act);
    const { client, service, attempts } = testClient(server.url.replace('http:', `${protocol}:`), {
      timeoutMilliseconds: TIMEOUT,
    });
    service.noteIdempotency(isHonoured);
    const error = await failureOf(call(client));
    // What was never sent can be sent again, whatever it is.
    const expected = isRepeated || !isSent ? 3 : 1;
    expect(attempts, name).toHaveLength(expected);
    expect(server.requests, name).toHaveLength(isSent ? expected : 0);
    const isDoubted = isSent && call === add;
    if (isDoubted) expect(error, name).toBeInstanceOf(OutcomeUnknownError);
    const cause = isDoubted ? (error as Error).cause : error;
    expect(cause, name).toBeInstanceOf(TimeoutError);
    expect(cause, name).toMatchObject({ sent: isSent, milliseconds: TIMEOUT });
    const keys = new Set(server.requests.map(({ headers }) => headers['idempotency-key']));
    expect(keys.size, name).toBe(isSent ? 1 : 0);
  });
  await Promise.all(runs);
});
