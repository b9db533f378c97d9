import { once } from 'node:events';
import { expect, test } from 'vitest';
import { MAX_REQUESTS } from '../../../src/server/tools/recorder.ts';
import { closed, connectTo } from '../../helpers/raw-client.ts';
import { startWithTools } from '../../helpers/tools.ts';

const TOTAL = 3_000;
const CONNECTIONS = 8;

/** A request that is as large, and as awkward to redact, as the service accepts. */
function hostileRequest(i: number, key: string): string {
  const body =
    i % 5 === 0
      ? ['\\', '://a:', 'pets_', '%25', '<script>'][(i / 5) % 5]?.repeat(8_000).slice(0, 60_000)
      : '';
  const filler = ['\\'.repeat(5_000), 'pets_'.repeat(1_000), '://a:b'.repeat(800), '%70'.repeat(1_500)][
    i % 4
  ];
  const frame = body ? `Content-Length: ${body.length}\r\nContent-Type: application/json\r\n` : '';
  const method = body ? 'POST' : 'GET';
  return `${method} /v1/pets?n=${i}&k=${key} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nCookie: c=${key}\r\nX-Filler: ${filler}\r\n${frame}\r\n${body}`;
}

test('3,000 requests with huge headers and bodies: the tools stay complete and small, and reveal nothing', async () => {
  const { port, requests, key, token } = await startWithTools();
  const { cursor } = await requests();
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async (_, first) => {
      const socket = connectTo(port());
      socket.resume();
      for (let i = first; i < TOTAL; i += CONNECTIONS) {
        if (!socket.write(hostileRequest(i, key))) await once(socket, 'drain');
      }
      socket.write('GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
      await closed(socket);
    }),
  );
  const { requests: shown, cursor: last } = await requests(`?since=${cursor}`);
  expect(shown.length).toBeGreaterThan(MAX_REQUESTS / 2);
  expect(Number(last.split('-')[1]) - Number(cursor.split('-')[1])).toBe(TOTAL + CONNECTIONS);
  const bodies = shown.map(
    ({ request, response }) => (request.body ?? '').length + (response?.body ?? '').length,
  );
  expect(bodies.reduce((sum, length) => sum + length, 0)).toBeLessThanOrEqual(24 * 2 ** 20);
  const text = JSON.stringify(shown);
  for (const secret of [key, token()]) expect(text).not.toContain(secret);
}, 120_000);
