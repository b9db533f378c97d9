import { getEventListeners, once } from 'node:events';
import type { Socket } from 'node:net';
import { Agent, buildConnector } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import type { Attempt } from '../../src/client/attempt.ts';
import { HeldBackError, InterruptedError, TimeoutError } from '../../src/client/errors.ts';
import { Exchange } from '../../src/client/exchange.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { type Act, answer, wireServer } from '../helpers/wire-server.ts';

async function start(act: Act = (socket) => socket.write(answer(201, {}))) {
  const closed = gate();
  const server = await wireServer(act, (socket: Socket) => once(socket, 'close').then(closed.open));
  // A connection is made only when the gate is opened.
  const connecting = gate();
  const connector = buildConnector({});
  const agent = new Agent({
    connect: (options, callback) => {
      connecting.opened.then(() => connector(options, callback));
    },
  });
  onTestFinished(() => agent.destroy());
  const interrupt = new AbortController();
  const send = (change: Partial<Attempt> = {}) => {
    const attempt: Attempt = {
      method: 'POST',
      url: new URL(server.url),
      headers: {},
      timeoutMilliseconds: 10_000,
      signal: interrupt.signal,
      mayStart: () => true,
      ...change,
    };
    return new Exchange(attempt, manualClock()).run(agent);
  };
  return { server, send, interrupt, connect: connecting.open, closed: closed.opened };
}

test.each([
  ['late', TimeoutError],
  ['interrupted', InterruptedError],
])('a request that is %s while it connects is not sent when the connection stands', async (what, kind) => {
  const { server, send, interrupt, connect } = await start();
  const sending = send({ body: 'never', timeoutMilliseconds: what === 'late' ? 10 : 10_000 });
  if (what === 'interrupted') interrupt.abort();
  const { outcome } = await sending;
  expect(outcome).toMatchObject({ failure: { sent: false } });
  expect('failure' in outcome && outcome.failure).toBeInstanceOf(kind);

  // One behind it goes out, so that it would have gone too.
  connect();
  const { outcome: next } = await send({ body: 'next', signal: new AbortController().signal });
  expect(next).toMatchObject({ reply: { status: 201 } });
  expect(server.requests.map(({ body }) => body)).toEqual(['next']);
});

test('a request that is given up closes its connection', async () => {
  const { send, connect, closed } = await start(() => {});
  connect();
  const { outcome } = await send({ timeoutMilliseconds: 50 });
  expect(outcome).toMatchObject({ failure: { sent: true } });
  await closed;
});

test('one that may not start is held back, on a connection that stands', async () => {
  const { server, send, connect } = await start();
  connect();
  const { outcome } = await send({ mayStart: () => false });
  expect('failure' in outcome && outcome.failure).toBeInstanceOf(HeldBackError);
  await send({ method: 'GET' });
  expect(server.requests.map(({ line }) => line)).toEqual(['GET /v1 HTTP/1.1']);
});

test('one that was interrupted before does not connect', async () => {
  const { server, send, connect, interrupt } = await start();
  connect();
  interrupt.abort();
  const { outcome } = await send();
  expect('failure' in outcome && outcome.failure).toBeInstanceOf(InterruptedError);
  await send({ signal: new AbortController().signal });
  expect(server.requests).toHaveLength(1);
});

test('nothing of it listens to the interrupt any more', async () => {
  const { send, connect, interrupt } = await start();
  connect();
  await send();
  expect(getEventListeners(interrupt.signal, 'abort')).toEqual([]);
});

test('what has come while the process was held up is no timeout', async () => {
  const { send, connect } = await start((socket) => {
    socket.write(answer(201, {}));
    // As by a slow reader of what the process writes.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  });
  connect();
  const { outcome } = await send({ timeoutMilliseconds: 50 });
  expect(outcome).toMatchObject({ reply: { status: 201 } });
});
