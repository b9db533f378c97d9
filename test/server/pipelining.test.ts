import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createRequestQueues } from '../../src/server/connection/pipelining.ts';

// Node reads at most 64 KiB at once: about nine of the long requests, or a thousand of the short ones.
test.each([
  ['long', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(7_000)}\r\n\r\n`, 400, 60],
  ['short', `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n${'x'.repeat(30)}`, 30_000, 5_000],
])(
  'of %s pipelined requests, only some are in memory, however many are sent',
  async (_, text, sent, limit) => {
    let arrived = 0;
    let handled = 0;
    let respond = () => {};
    const queues = createRequestQueues(async (request, response) => {
      for await (const _ of request);
      respond = () => {
        handled++;
        response.end();
      };
    });
    const server = createServer((request, response) => {
      arrived++;
      queues.handle(request, response);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').resume();
    onTestFinished(() => {
      client.destroy();
      server.close();
    });
    client.write(text.repeat(sent));
    await expect.poll(() => arrived).toBeGreaterThan(16);
    let most = 0;
    for (let i = 0; i < 400; i++) {
      for (let turn = 0; turn < 20; turn++) await setImmediate();
      most = Math.max(most, arrived - handled);
      respond();
      await expect.poll(() => handled).toBe(i + 1);
      if (i < sent - 1) await expect.poll(() => arrived - handled).toBeGreaterThan(0);
    }
    expect(arrived).toBeGreaterThanOrEqual(400);
    expect(most).toBeLessThan(limit);
  },
);
