import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createRequestQueue } from '../../src/server/connection/pipelining.ts';

test('a client that pipelines gets as many requests into memory as are pending, not all that it has sent', async () => {
  const SENT = 400;
  let arrived = 0;
  let handled = 0;
  let respond = () => {};
  const queue = createRequestQueue((_, response) => {
    respond = () => {
      handled++;
      response.end();
    };
  });
  const server = createServer((request, response) => {
    arrived++;
    queue.handle(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').resume();
  onTestFinished(() => {
    client.destroy();
    server.close();
  });
  // Node reads at most 64 KiB at once, which contain about nine of these requests.
  client.write(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(7_000)}\r\n\r\n`.repeat(SENT));
  await expect.poll(() => arrived).toBeGreaterThan(16);
  let most = 0;
  for (let i = 0; i < SENT; i++) {
    for (let turn = 0; turn < 20; turn++) await setImmediate();
    most = Math.max(most, arrived - handled);
    respond();
    await expect.poll(() => handled).toBe(i + 1);
    if (i < SENT - 1) await expect.poll(() => arrived - handled).toBeGreaterThan(0);
  }
  expect(arrived).toBe(SENT);
  expect(most).toBeLessThan(60);
});
