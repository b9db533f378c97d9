import { once } from 'node:events';
import type { Socket } from 'node:net';
import { Agent, buildConnector } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import type { Attempt } from '../../src/client/attempt.ts';
import { InterruptedError, TimeoutError } from '../../src/client/errors.ts';
import { Exchange } from '../../src/client/exchange.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { answer, wireServer } from '../helpers/wire-server.ts';

/** A connection that is made only when the gate is opened. */
function slowAgent() {
  const connecting = gate();
  const connector = buildConnector({});
  const agent = new Agent({
    connect: (options, callback) => {
      connecting.opened.then(() => connector(options, callback));
    },
  });
  onTestFinished(() => agent.destroy());
  return { agent, connect: connecting.open };
}

test.each([
  ['late', TimeoutError],
  ['interrupted', InterruptedError],
])('a request that is %s while it connects is not sent when the connection stands', async (what, kind) => {
  const connected = gate();
  let closed: Promise<unknown> | undefined;
  const server = await wireServer(
    (socket) => socket.write(answer(201, {})),
    (socket: Socket) => {
      closed = once(socket, 'close');
      connected.open();
    },
  );
  const { agent, connect } = slowAgent();
  const interrupt = new AbortController();
  const attempt: Attempt = {
    method: 'POST',
    url: new URL(server.url),
    headers: {},
    body: '{}',
    timeoutMilliseconds: what === 'late' ? 10 : 10_000,
    signal: interrupt.signal,
    mayStart: () => true,
  };
  const sending = new Exchange(attempt, manualClock()).run(agent);
  if (what === 'interrupted') interrupt.abort();
  const { outcome } = await sending;
  expect(outcome).toMatchObject({ failure: { sent: false } });
  expect('failure' in outcome && outcome.failure).toBeInstanceOf(kind);

  connect();
  await connected.opened;
  await agent.destroy();
  await closed;
  expect(server.requests).toEqual([]);
});
