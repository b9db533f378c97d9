import { describe, expect, test } from 'vitest';
import { allowedHosts } from '../../src/server/request/checks.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import { sendRaw } from '../helpers/raw-client.ts';
import { CLOSE } from '../helpers/raw-requests.ts';
import { startReal } from '../helpers/real-service.ts';
import { start } from '../helpers/service.ts';

const publicUrl = 'https://shop.example/inventory/v1';

describe('with a public URL', () => {
  test('links have its path', async () => {
    const { call, store } = await start({ publicUrl });
    await store.seed(sampleData());
    const link = (await call('/v1/pets?limit=1&status=sold')).headers.get('link');
    expect(link).toMatch(/^<\/inventory\/v1\/pets\?limit=1&status=sold&cursor=\w+>; rel="next"$/);
    const deprecated = await call('/v1/pets/1');
    expect(deprecated.headers.get('link')).toBe('</inventory/v1/pets>; rel="successor-version"');
  });

  test.each([
    ['127.0.0.1', [], 'shop.example:8443', 200],
    ['127.0.0.1', [], 'other.example', 421],
    ['0.0.0.0', [], 'other.example', 200],
    ['0.0.0.0', ['other.example'], 'shop.example', 200],
    ['0.0.0.0', ['other.example'], 'evil.example', 421],
  ])(
    'listening on %s with %j allowed, the status for Host: %s is %i',
    async (host, allowHosts, name, status) => {
      const service = await startReal({ host, allowHosts, publicUrl });
      const bytes = `GET /healthz HTTP/1.1\r\nHost: ${name}\r\n${CLOSE}\r\n`;
      expect((await sendRaw(service.port(), bytes))[0]?.status).toBe(status);
    },
  );

  test('the host is allowed in lower case', () => {
    const names = allowedHosts({ host: '::1', address: '::1' }, [], 'https://Shop.Example:8443/v1');
    expect(names).toEqual(new Set(['[::1]', 'shop.example']));
  });
});
