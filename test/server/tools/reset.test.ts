import { expect, test } from 'vitest';
import { sampleData } from '../../../src/server/mocks.ts';
import { AUTH, connectTo, JSON_TYPE, open, REX } from '../../helpers/raw-client.ts';
import { startWithTools } from '../../helpers/real-service.ts';
import { create } from '../../helpers/service.ts';

const seed = async () => sampleData();
const options = { resettable: true, seed, time: '2026-11-20T12:00:10Z' };
const reset = { method: 'POST' };

test('POST /reset restores the seed; ids, orders, windows and idempotency keys start again; keys and page cursors stay', async () => {
  const { call, use, restart } = await startWithTools(options);
  const orders = await (await call('/store/orders')).text();
  const added = await call('/pets', create(REX, { 'Idempotency-Key': '"k"' }));
  const first = (await added.json()) as { id: number };
  const { headers } = await call('/pets?limit=50');
  const next = /<\/v1(.+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1] ?? '';
  const response = await use('/reset', reset);
  expect([response.status, await response.json()]).toEqual([
    200,
    { animals: 66, cursor: expect.stringMatching(/-3$/) },
  ]);
  const again = await call('/pets', create('{"name":"Mia","categoryId":2}', { 'Idempotency-Key': '"k"' }));
  expect([again.status, again.headers.get('x-ratelimit-remaining')]).toEqual([201, '59']);
  expect(await again.json()).toMatchObject({ id: first.id, name: 'Mia' });
  expect(await (await call('/store/orders')).text()).toBe(orders);
  expect(await (await call(next)).json()).toHaveLength(17);
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

test('without --resettable, POST /reset is forbidden, also with a seed', async () => {
  const { call, use } = await startWithTools({ seed });
  await call('/pets', create(REX));
  const before = await (await call('/pets')).text();
  const response = await use('/reset', reset);
  expect([response.status, await response.json()]).toMatchObject([403, { code: 'forbidden' }]);
  expect(await (await call('/pets')).text()).toBe(before);
});

test.each([
  [
    { ...options, seedName: 'the sample data' },
    { animals: 67, seed: 'the sample data' },
  ],
  [{ resettable: true }, { animals: 1 }],
  [
    { seed, seedName: 'animals.csv' },
    {
      ...{ animals: 67, seed: 'animals.csv' },
      reason: 'This store cannot be reset. Start the server with --resettable',
    },
  ],
])(
  'GET /reset says what a reset would delete, and by what it is replaced or why it is not allowed',
  async (settings, shown) => {
    const { call, use, directory } = await startWithTools(settings);
    await call('/pets', create(REX));
    expect(await (await use('/reset')).json()).toEqual({ ...shown, location: directory });
  },
);

test('a client that sends its body slowly delays neither a reset nor other requests', async () => {
  const { call, use, key, port } = await startWithTools(options);
  const line = connectTo(port());
  const headers = `${JSON_TYPE}Expect: 100-continue\r\nContent-Length: ${REX.length}\r\n\r\n`;
  await line.send(open('POST', '/v1/pets', headers).replace(AUTH, `Authorization: Bearer ${key}\r\n`));
  // The service has begun to read the body.
  expect((await line.receive())?.status).toBe(100);
  expect((await use('/reset', reset)).status).toBe(200);
  expect(await (await call('/pets?limit=100')).json()).toHaveLength(66);
  expect((await line.ask(REX)).status).toBe(201);
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
