import { expect, test } from 'vitest';
import { sampleData } from '../../../src/server/sample-data.ts';
import { connectTo, nextData } from '../../helpers/raw-client.ts';
import { create } from '../../helpers/service.ts';
import { startWithTools } from '../../helpers/tools.ts';

const REX = '{"name":"Rex","categoryId":1}';
const seed = async () => sampleData();
const options = { resettable: true, seed, time: '2026-11-20T12:00:10Z' };
const reset = { method: 'POST' };

test('POST /reset restores the seed; ids, orders, windows and idempotency keys start again; keys stay', async () => {
  const { call, use, restart } = await startWithTools(options);
  const orders = await (await call('/store/orders')).text();
  const added = await call('/pets', create(REX, { 'Idempotency-Key': '"k"' }));
  const first = (await added.json()) as { id: number };
  await call('/pets', create(REX));
  const response = await use('/reset', reset);
  expect([response.status, await response.json()]).toEqual([
    200,
    { animals: 66, cursor: expect.stringMatching(/-3$/) },
  ]);
  const again = await call('/pets', create('{"name":"Mia","categoryId":2}', { 'Idempotency-Key': '"k"' }));
  expect([again.status, again.headers.get('x-ratelimit-remaining')]).toEqual([201, '59']);
  expect(await again.json()).toMatchObject({ id: first.id, name: 'Mia' });
  expect(await (await call('/store/orders')).text()).toBe(orders);
  await restart();
  expect(await (await call(`/pets/${first.id}`)).json()).toMatchObject({ name: 'Mia' });
  expect((await call(`/pets/${first.id + 1}`)).status).toBe(404);
});

test('POST /reset without a seed empties the store, also one that had animals at the start', async () => {
  const { call, use, restart } = await startWithTools({ resettable: true });
  await call('/pets', create(REX));
  await restart();
  expect(await (await use('/reset', reset)).json()).toMatchObject({ animals: 0 });
  expect(await (await call('/pets', create(REX))).json()).toMatchObject({ id: 1 });
});

test('a page cursor from before a reset still works', async () => {
  const { call, use } = await startWithTools(options);
  const next =
    /<\/v1(.+)>; rel="next"/.exec((await call('/pets?limit=50')).headers.get('link') ?? '')?.[1] ?? '';
  await use('/reset', reset);
  expect(await (await call(next)).json()).toHaveLength(16);
});

test('without --resettable, POST /reset is forbidden, also with a seed', async () => {
  const { call, use } = await startWithTools({ seed });
  await call('/pets', create(REX));
  const before = await (await call('/pets')).text();
  const response = await use('/reset', reset);
  expect([response.status, await response.json()]).toMatchObject([403, { code: 'forbidden' }]);
  expect(await (await call('/pets')).text()).toBe(before);
});

test('GET /reset says what a reset would delete and by what it is replaced, or why it is not allowed', async () => {
  const shown = async (more: Parameters<typeof startWithTools>[0]) => {
    const { call, use, directory } = await startWithTools(more);
    await call('/pets', create(REX));
    const response = await use('/reset');
    return { directory, status: response.status, body: await response.json() };
  };
  const sample = await shown({ ...options, seedName: 'the sample data' });
  expect(sample).toMatchObject({ status: 200 });
  expect(sample.body).toEqual({
    animals: 67,
    location: sample.directory,
    seed: 'the sample data',
  });
  const empty = await shown({ resettable: true });
  expect(empty.body).toEqual({ animals: 1, location: empty.directory });
  const forbidden = await shown({ seed, seedName: 'animals.csv' });
  expect(forbidden.body).toEqual({
    reason: 'This store cannot be reset. Start the server with --resettable or --ephemeral',
    animals: 67,
    location: forbidden.directory,
    seed: 'animals.csv',
  });
});

test('a client that sends its body slowly delays neither a reset nor other requests', async () => {
  const { call, use, key, port } = await startWithTools(options);
  const socket = connectTo(port());
  socket.write(
    `POST /v1/pets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${REX.length}\r\n\r\n`,
  );
  // The service has begun to read the body.
  expect(String(await nextData(socket))).toContain('100 Continue');
  expect((await use('/reset', reset)).status).toBe(200);
  expect(await (await call('/pets?limit=100')).json()).toHaveLength(66);
  const response = nextData(socket);
  socket.write(REX);
  expect(String(await response)).toContain('HTTP/1.1 201');
  expect(await (await call('/pets?limit=100')).json()).toHaveLength(67);
});

test('a seed that cannot be read changes nothing', async () => {
  let isBroken = false;
  const { call, use } = await startWithTools({
    resettable: true,
    seed: async () => {
      if (isBroken) throw new Error('the seed is gone');
      return sampleData();
    },
  });
  await call('/pets', create(REX));
  isBroken = true;
  expect((await use('/reset', reset)).status).toBe(500);
  expect(await (await call('/pets?limit=100')).json()).toHaveLength(67);
  isBroken = false;
  expect((await use('/reset', reset)).status).toBe(200);
});
