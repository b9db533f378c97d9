import { expect, test } from 'vitest';
import type { ServiceOptions } from '../../src/server/service.ts';
import { startReal } from '../helpers/real-service.ts';

// A service is local if only programs on this machine are meant to reach it (docs/serve.md).

test.each<[when: string, options: Partial<ServiceOptions>, local: boolean, tools: boolean]>([
  ['by default', {}, true, true],
  ['with --no-page', { page: false }, true, false],
  ['with a public URL', { publicUrl: 'https://shop.example/v1' }, false, false],
  ['with a public URL and --page', { publicUrl: 'https://shop.example/v1', page: true }, false, true],
  ['with a trusted proxy', { trustedProxies: ['10.0.0.1'] }, false, false],
  ['with --allow-host', { allowHosts: ['shop.test'] }, false, false],
  ['on another address', { host: '0.0.0.0' }, false, false],
  ['on another address with --page', { host: '0.0.0.0', page: true }, false, true],
])(
  'whether there are tools, Prefer, metrics and a limit of requests without a key: %s',
  async (_when, options, local, tools) => {
    const { service, port, call } = await startReal(options);
    expect(service().pageUrl !== undefined).toBe(tools);
    expect((await call('/pets', { headers: { Prefer: 'code=503' } })).status).toBe(tools ? 503 : 200);
    const metrics = async (headers = {}) =>
      (await fetch(`http://127.0.0.1:${port()}/metrics`, { headers })).status;
    expect(await metrics()).toBe(local ? 200 : 401);
    expect(await metrics({ Authorization: `Bearer ${service().token}` })).toBe(200);
    const guess = () => call('/pets', { headers: { Authorization: 'Bearer wrong' } });
    for (let i = local ? 0 : 1; i < 60; i++) expect((await guess()).status).toBe(401);
    expect((await guess()).status).toBe(local ? 401 : 429);
    expect((await call('/pets')).status).toBe(200);
  },
);
