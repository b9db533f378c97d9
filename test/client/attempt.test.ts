import { getEventListeners, once } from 'node:events';
import type { Socket } from 'node:net';
import { Agent, buildConnector } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { type Attempt, runAttempt } from '../../src/client/attempt.ts';
import { NetworkError, toAttemptError } from '../../src/client/errors.ts';
import { InterruptedError } from '../../src/system/clock.ts';
import { gate } from '../helpers/gate.ts';
import { type Act, formatResponse, wireServer } from '../helpers/wire-server.ts';

async function start(act: Act = (socket) => socket.write(formatResponse(201, {}))) {
  const closed = gate();
  const server = await wireServer(act, (socket: Socket) => once(socket, 'close').then(closed.open));
  // The agent connects only after the gate is opened.
  const connecting = gate();
  const connector = buildConnector({});
  const agent = new Agent({
    connect: (options, callback) => {
      connecting.opened.then(() => connector(options, callback));
    },
  });
  onTestFinished(() => agent.destroy());
  const interrupt = new AbortController();
  let expire = () => {};
  const startTimer = (callback: () => void) => {
    expire = callback;
    return undefined;
  };
  const send = (change: Partial<Attempt> = {}) => {
    const attempt: Attempt = {
      method: 'POST',
      url: new URL(server.url),
      headers: {},
      timeout: 10_000,
      signal: interrupt.signal,
      canSend: () => true,
      ...change,
    };
    return runAttempt({ dispatcher: agent, toError: toAttemptError }, attempt, { startTimer });
  };
  return {
    server,
    send,
    interrupt: () => interrupt.abort(),
    expire: () => expire(),
    signal: interrupt.signal,
    connect: connecting.open,
    closed: closed.opened,
  };
}

test.each([
  ['expire', NetworkError, { error: { code: 'timeout', sent: false } }],
  ['interrupt', InterruptedError, { wasSent: false }],
] as const)('after an %s while connecting, nothing is sent', async (event, kind, expected) => {
  const { server, send, connect, ...events } = await start();
  const sending = send({ body: 'first' });
  events[event]();
  const outcome = await sending;
  expect(outcome).toMatchObject(expected);
  expect(outcome && 'error' in outcome && outcome.error).toBeInstanceOf(kind);

  // The next request shows that the first one was dropped, and not only delayed.
  connect();
  const next = await send({ body: 'next', signal: new AbortController().signal });
  expect(next).toMatchObject({ response: { status: 201 } });
  expect(server.requests.map(({ body }) => body)).toEqual(['next']);
});

test('a timeout closes the connection', async () => {
  const { send, connect, closed, expire } = await start(() => expire());
  connect();
  expect(await send()).toMatchObject({ error: { sent: true } });
  await closed;
});

test('an attempt with an aborted signal does not connect, and one that has ended has removed its listener', async () => {
  const { server, send, connect, interrupt, signal } = await start();
  connect();
  await send();
  expect(getEventListeners(signal, 'abort')).toEqual([]);
  interrupt();
  const outcome = await send();
  expect(outcome && 'error' in outcome && outcome.error).toBeInstanceOf(InterruptedError);
  await send({ signal: new AbortController().signal });
  expect(server.requests).toHaveLength(2);
});

test('a response that arrived while the process was blocked is read before the attempt expires', async () => {
  const { send, connect, expire } = await start((socket) => {
    setTimeout(expire, 1);
    socket.write(formatResponse(201, {}));
    // Block the process, as a write to a slow reader does, so that the timer is due before the response is read.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  });
  connect();
  expect(await send()).toMatchObject({ response: { status: 201 } });
});
