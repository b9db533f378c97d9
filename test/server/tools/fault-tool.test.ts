import { describe, expect, test } from 'vitest';
import { MAX_RULES } from '../../../src/server/faults/fault-settings.ts';
import type { ServiceOptions } from '../../../src/server/service.ts';
import { REX } from '../../helpers/raw-requests.ts';
import { startReal } from '../../helpers/real-service.ts';
import { create } from '../../helpers/service.ts';

async function startWithTools(options: Partial<ServiceOptions> = {}) {
  const real = await startReal(options);
  const { token } = real.service();
  const send = async (
    method: string,
    body?: string | Uint8Array<ArrayBuffer>,
    headers: Record<string, string> = {},
  ) => {
    const response = await fetch(new URL('/faults', real.service().url), {
      method,
      ...(body !== undefined && { body }),
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', ...headers },
    });
    return { status: response.status, body: await response.json() };
  };
  const put = (settings: unknown) => send('PUT', JSON.stringify(settings));
  return { ...real, send, put };
}

const TWICE = { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 2, retryAfter: 1 };

describe('/faults', () => {
  test('sets rules, shows how often each has applied, and clears them', async () => {
    const { call, send, put } = await startWithTools();
    expect(await send('GET')).toEqual({ status: 200, body: { seed: 0, rules: [] } });
    expect(await put([TWICE])).toEqual({ status: 200, body: { seed: 0, rules: [{ ...TWICE, applied: 0 }] } });
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await call('/pets', create(REX))).status);
    expect(statuses).toEqual([503, 503, 201]);
    expect((await send('GET')).body).toEqual({ seed: 0, rules: [{ ...TWICE, applied: 2 }] });
    expect(await send('DELETE')).toEqual({ status: 200, body: { seed: 0, rules: [] } });
    expect((await call('/pets', create(REX))).status).toBe(201);
  });

  test('replaces everything that was set before', async () => {
    const { call, put } = await startWithTools({ faults: { seed: 4, failRate: 1 } });
    expect((await call('/pets')).status).toBe(503);
    expect((await put([])).body).toEqual({ seed: 4, rules: [] });
    expect((await call('/pets')).status).toBe(200);
    expect((await put({ failRate: 1, latency: 0, seed: 8 })).body).toEqual({
      failRate: 1,
      latency: { min: 0, max: 0 },
      seed: 8,
      rules: [],
    });
    expect((await call('/pets')).status).toBe(503);
  });

  test('neither shows nor changes anything without the token, and is off with the tools', async () => {
    const { call, send } = await startWithTools();
    for (const [method, body] of [
      ['GET'],
      ['PUT', '[{"answer":500}]'],
      ['POST', '{"answer":500}'],
      ['DELETE'],
    ] as const) {
      expect((await send(method, body, { Authorization: 'Bearer wrong' })).status).toBe(401);
      expect((await send(method, body, { 'Sec-Fetch-Site': 'same-site' })).status).toBe(403);
    }
    expect((await call('/pets')).status).toBe(200);
    expect((await (await startWithTools({ page: false })).send('GET')).status).toBe(404);
  });

  test('POST adds one rule before the others, and leaves them as they are', async () => {
    const { call, send, put } = await startWithTools();
    await put([TWICE]);
    expect((await call('/pets', create(REX))).status).toBe(503);
    const rule = { match: { method: 'POST', path: '/v1/pets' }, answer: 429, times: 1 };
    expect(await send('POST', JSON.stringify(rule))).toEqual({
      status: 200,
      body: {
        seed: 0,
        rules: [
          { ...rule, applied: 0 },
          { ...TWICE, applied: 1 },
        ],
      },
    });
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await call('/pets', create(REX))).status);
    expect(statuses).toEqual([429, 503, 201]);
  });

  test('POST refuses a rule that is not valid, and one too many', async () => {
    const { send, put } = await startWithTools();
    await put(Array(MAX_RULES - 1).fill(TWICE));
    for (const body of ['[]', '{"rules":[]}', '{"answer":200.5}', '{}', '"x"', '[{"answer":503}]']) {
      expect((await send('POST', body)).status).toBe(400);
    }
    expect((await send('POST', '{"answer":503}')).status).toBe(200);
    expect(await send('POST', '{"answer":503}')).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
    expect(((await send('GET')).body as { rules: unknown[] }).rules).toHaveLength(MAX_RULES);
  });

  test('POST drops the rules that have no effect any more, which therefore do not count as rules', async () => {
    const { call, send, put } = await startWithTools();
    const used = { answer: 503, times: 1 };
    await put(Array(MAX_RULES).fill({ ...used, applied: 1 }));
    expect(await send('POST', JSON.stringify(used))).toMatchObject({ status: 200, body: { rules: [used] } });
    expect((await call('/pets')).status).toBe(503);
    expect(await send('POST', '{"answer":404}')).toMatchObject({
      status: 200,
      body: { rules: [{ answer: 404, applied: 0 }] },
    });
  });

  test('other methods are 405', async () => {
    const { send } = await startWithTools();
    expect((await send('PATCH', '[]')).status).toBe(405);
  });

  test('requests to it are not counted, and neither rules nor random failures affect them', async () => {
    const { call, put, send } = await startWithTools({ faults: { seed: 1, failRate: 1 } });
    expect((await put([{ answer: 503, times: 1 }])).status).toBe(200);
    for (let i = 0; i < 70; i++) expect((await send('GET')).status).toBe(200);
    expect((await call('/pets')).status).toBe(503);
    expect((await call('/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });

  const deep = `${'['.repeat(33)}${']'.repeat(33)}`;
  test.each<
    [name: string, status: number, body: string | Uint8Array<ArrayBuffer>, headers?: Record<string, string>]
  >([
    ['no body', 400, ''],
    ['text', 400, 'fail twice'],
    ['a deeply nested array', 400, deep],
    ['a deeply nested field', 400, `{"latency":${deep}}`],
    ['a large body', 413, `[${'0,'.repeat(40_000)}0]`],
    ['many small elements', 400, `[${'0,'.repeat(30_000)}0]`],
    ['many unknown fields', 400, `{${Array.from({ length: 5_000 }, (_, i) => `"f${i}":0`).join(',')}}`],
    ['invalid UTF-8', 400, new Uint8Array([0x5b, 0xff, 0x5d])],
    ['another content type', 415, '[]', { 'Content-Type': 'text/plain' }],
    ['a compressed body', 415, '[]', { 'Content-Encoding': 'gzip' }],
    ['a prototype', 400, '{"__proto__":{"failRate":1}}'],
    ['a prototype next to a fraction', 400, '{"__proto__":{"failRate":1},"failRate":0.5}'],
    ['a second rule that is invalid', 400, '[{"answer":500},{"answer":"500"}]'],
    ['a rule for a path outside the API', 400, '[{"match":{"path":"/healthz"},"answer":500}]'],
  ])('%s is %i with a short error, and changes nothing', async (_name, status, body, headers) => {
    const { put, send } = await startWithTools();
    const { body: before } = await put([TWICE]);
    const response = await send('PUT', body, headers);
    expect(response.status).toBe(status);
    expect(JSON.stringify(response.body).length).toBeLessThan(400);
    expect((await send('GET')).body).toEqual(before);
  });

  test('settings that change during requests affect each request as a whole', async () => {
    const { call, put } = await startWithTools();
    const results = Array.from({ length: 40 }, async (_, i) => {
      if (i % 4 === 0) await put(i % 8 === 0 ? [{ answer: 503 }] : []);
      return (await call('/pets')).status;
    });
    for (const status of await Promise.all(results)) expect([200, 503]).toContain(status);
  });
});
