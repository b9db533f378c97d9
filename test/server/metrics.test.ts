import { describe, expect, test } from 'vitest';
import { startReal } from '../helpers/real-service.ts';
import { create } from '../helpers/service.ts';

async function startWithMetrics(options: Parameters<typeof startReal>[0] = {}) {
  const service = await startReal({ time: '2026-11-20T12:00:10Z', ...options });
  const fetchMetrics = () => fetch(`http://127.0.0.1:${service.port()}/metrics`);
  /** The lines of a metric in the text format of Prometheus, without its name. */
  const metric = async (name: string) =>
    [...(await (await fetchMetrics()).text()).matchAll(new RegExp(`^(?:# TYPE )?${name}(.*)$`, 'gm'))].map(
      ([, rest = '']) => rest.trim(),
    );
  return { ...service, fetchMetrics, metric };
}

describe('GET /metrics', () => {
  test('counts requests by operation and status; every unknown path is `other`', async () => {
    const { call, metric, port } = await startWithMetrics();
    await call('/pets');
    await call('/pets', { method: 'HEAD' });
    await call('/pets', create('{"name":"Rex","categoryId":1}'));
    await call('/pets', create('{'));
    await call('/pets/99');
    await call('/store/orders', { headers: { Authorization: '' } });
    await call('/pets', { method: 'OPTIONS' });
    for (let i = 0; i < 20; i++) await call(`/unknown/${i}`);
    await call('/pets', { method: 'DELETE' });
    await fetch(`http://127.0.0.1:${port()}/healthz`);
    const counts = [
      'counter',
      '{operation="listPets",status="200"} 2',
      '{operation="createPet",status="201"} 1',
      '{operation="createPet",status="400"} 1',
      '{operation="getPet",status="404"} 1',
      '{operation="listOrders",status="401"} 1',
      '{operation="options",status="204"} 1',
      '{operation="other",status="404"} 20',
      '{operation="other",status="405"} 1',
      '{operation="/healthz",status="200"} 1',
    ];
    expect(await metric('pets_http_requests_total')).toEqual(counts);
    expect(await metric('pets_http_requests_total')).toEqual([
      ...counts,
      '{operation="/metrics",status="200"} 1',
    ]);
  });

  test('counts 429s and bans, and shows how many keys are banned', async () => {
    const { clock, call, metric } = await startWithMetrics({ bans: { after: 2, milliseconds: 1_000 } });
    for (let i = 0; i < 63; i++) await call('/pets');
    clock.advance(1_000);
    for (let i = 0; i < 4; i++) await call('/pets');
    expect(await metric('pets_http_requests_total')).toContain('{operation="listPets",status="429"} 7');
    expect(await metric('pets_key_bans_total')).toEqual(['counter', '1']);
    expect(await metric('pets_banned_keys')).toEqual(['gauge', '1']);
    clock.advance(1_000);
    expect(await metric('pets_banned_keys')).toEqual(['gauge', '0']);
  });

  test('shows the durations of fsyncs', async () => {
    const { call, metric } = await startWithMetrics();
    for (let i = 0; i < 3; i++) await call('/pets', create('{"name":"Rex","categoryId":1}'));
    expect(await metric('pets_fsync_duration_seconds')).toEqual(
      expect.arrayContaining(['histogram', '_bucket{le="+Inf"} 3', '_count 3']),
    );
  });

  test('needs no key, has the type of the format, and names no keys, no animals and, with a directory, no database', async () => {
    const { call, fetchMetrics, key } = await startWithMetrics();
    await call('/pets', create('{"name":"Secret","categoryId":1}'));
    await call(`/pets?${key}`, { headers: { 'X-Request-Id': key } });
    const response = await fetchMetrics();
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await response.text()).not.toMatch(new RegExp(`${key}|Secret|till|database`));
  });
});
