import { describe, expect, test } from 'vitest';
import { parseMetrics } from '../helpers/prometheus.ts';
import { startReal } from '../helpers/real-service.ts';
import { create } from '../helpers/service.ts';

async function startWithMetrics(options: Parameters<typeof startReal>[0] = {}) {
  const service = await startReal({ time: '2026-11-20T12:00:10Z', ...options });
  const fetchMetrics = () => fetch(`http://127.0.0.1:${service.port()}/metrics`);
  const metrics = async () => parseMetrics(await (await fetchMetrics()).text());
  return { ...service, fetchMetrics, metrics };
}

describe('GET /metrics', () => {
  test('counts requests by operation and status; every unknown path is `other`', async () => {
    const { call, metrics, port } = await startWithMetrics();
    await call('/pets');
    await call('/pets', { method: 'HEAD' });
    await call('/pets', create('{"name":"Rex","categoryId":1}'));
    await call('/pets', create('{'));
    await call('/pets/1');
    await call('/pets/99');
    await call('/store/orders', { headers: { Authorization: '' } });
    await call('/pets', { method: 'OPTIONS' });
    for (let i = 0; i < 20; i++) await call(`/unknown/${i}`);
    await call('/pets', { method: 'DELETE' });
    await fetch(`http://127.0.0.1:${port()}/healthz`);
    const { pets_http_requests_total: requests } = await metrics();
    expect(requests).toEqual({
      type: 'counter',
      samples: {
        'operation="listPets",status="200"': 2,
        'operation="createPet",status="201"': 1,
        'operation="createPet",status="400"': 1,
        'operation="getPet",status="200"': 1,
        'operation="getPet",status="404"': 1,
        'operation="listOrders",status="401"': 1,
        'operation="options",status="204"': 1,
        'operation="other",status="404"': 20,
        'operation="other",status="405"': 1,
        'operation="/healthz",status="200"': 1,
      },
    });
    expect((await metrics())['pets_http_requests_total']?.samples).toMatchObject({
      'operation="/metrics",status="200"': 1,
    });
  });

  test('counts 429s and bans, and shows how many keys are banned', async () => {
    const { clock, call, metrics } = await startWithMetrics({ bans: { after: 2, milliseconds: 1_000 } });
    for (let i = 0; i < 63; i++) await call('/pets');
    clock.advance(1_000);
    for (let i = 0; i < 4; i++) await call('/pets');
    const shown = await metrics();
    expect(shown['pets_http_requests_total']?.samples).toMatchObject({
      'operation="listPets",status="429"': 7,
    });
    expect(shown['pets_key_bans_total']?.samples).toEqual({ '': 1 });
    expect(shown['pets_banned_keys']).toEqual({ type: 'gauge', samples: { '': 1 } });
    clock.advance(1_000);
    expect((await metrics())['pets_banned_keys']?.samples).toEqual({ '': 0 });
  });

  test('shows the durations of fsyncs', async () => {
    const { call, metrics } = await startWithMetrics();
    for (let i = 0; i < 3; i++) await call('/pets', create('{"name":"Rex","categoryId":1}'));
    const { pets_fsync_duration_seconds: durations } = await metrics();
    expect(durations?.type).toBe('histogram');
    expect(durations?.samples).toMatchObject({ _count: 3, 'le="+Inf"': 3 });
  });

  test('needs no key, has the type of the format, and names no keys, no animals and, with a directory, no database', async () => {
    const { call, fetchMetrics, key } = await startWithMetrics();
    await call('/pets', create('{"name":"Secret","categoryId":1}'));
    await call(`/pets?${key}`, { headers: { 'X-Request-Id': key } });
    const response = await fetchMetrics();
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await response.text()).not.toMatch(new RegExp(`${key}|Secret|till|database`));
    expect((await fetchMetrics()).headers.get('x-ratelimit-limit')).toBe('60');
  });
});
