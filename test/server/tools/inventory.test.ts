import { describe, expect, test } from 'vitest';
import { INT64_MAX, INT64_MIN, parseInt64 } from '../../../src/contract/int64.ts';
import { MAX_COUNTS } from '../../../src/server/tools/animal-counts.ts';
import { MAX_ORDERS } from '../../../src/server/tools/inventory-tools.ts';
import { MAX_READ } from '../../../src/server/tools/read-animals.ts';
import type { Seed } from '../../../src/store/store.ts';
import { create } from '../../helpers/service.ts';
import { animal } from '../../helpers/store-fixtures.ts';
import { startWithTools } from '../../helpers/tools.ts';

/** Starts the service with these animals and orders. `read` returns the text of a tool's response. */
async function startWithSeed({ pets = [], orders = [] }: Partial<Seed>) {
  const real = await startWithTools({ resettable: true, seed: async () => ({ pets, orders }) });
  const read = async (path: string): Promise<string> => {
    const response = await real.use(path);
    if (response.status !== 200) throw new Error(await response.text());
    return response.text();
  };
  const names = async (query: string) => {
    const { animals } = JSON.parse(await read(`/inventory?${query}`)) as { animals: { name: string }[] };
    return animals.map(({ name }) => name);
  };
  const post = (text: string) => real.call('/pets', create(text));
  const reset = () => real.use('/reset', { method: 'POST' });
  return { ...real, read, names, post, reset };
}

const pet = (id: bigint, name: string, more: Parameters<typeof animal>[1] = {}) => ({
  id,
  ...animal(name, more),
});

const many = (count: number) => Array.from({ length: count }, (_, i) => pet(BigInt(i + 1), `n${i + 1}`));

describe('GET /inventory', () => {
  test('an empty store has no animals', async () => {
    const { read } = await startWithSeed({});
    expect(await read('/inventory')).toBe('{"animals":[],"read":0}');
    expect(await read('/inventory?name=x')).toBe('{"animals":[],"read":0}');
  });

  test('animals are shown byte for byte, at the limits of int64 and with awkward names', async () => {
    const names = [
      '\ud800',
      '\u0000\u001b[2J\n\u007f',
      '__proto__',
      '"},{"id":9,"name":"',
      '<script>',
      '🐈\\',
      '',
    ];
    const pets = [
      pet(INT64_MIN, 'first', { categoryId: INT64_MAX }),
      ...names.map((name, i) => pet(BigInt(i), name, { categoryId: INT64_MIN })),
      pet(INT64_MAX - 1n, 'last', { categoryId: 9_007_199_254_740_993n }),
    ];
    const { call, read } = await startWithSeed({ pets });
    const stored = await (await call('/pets?limit=100')).text();
    expect(await read('/inventory')).toBe(`{"animals":${stored},"read":${pets.length}}`);
    const filtered = await read(`/inventory?category=${INT64_MIN}`);
    const [first = '', ...rest] = stored.slice(1, -1).split(/,(?=\{"id":)/);
    expect(first).toContain('"id":-9223372036854775808,"name":"first","categoryId":9223372036854775807,');
    expect(filtered).toBe(`{"animals":[${rest.slice(0, -1).join(',')}],"read":${pets.length}}`);
    expect(await read(`/inventory?after=${INT64_MAX}`)).toBe('{"animals":[],"read":0}');
  });

  const zoo = [
    pet(1n, 'Rex', { categoryId: 1n, status: 'available' }),
    pet(2n, 'trex', { categoryId: 2n, status: 'sold' }),
    pet(3n, 'ÉMILE', { categoryId: 1n, status: 'pending' }),
    pet(4n, 'a"quote', { categoryId: 1n, status: 'sold' }),
    pet(5n, 'ΟΔΟΣ', { categoryId: 2n, status: 'sold' }),
    pet(6n, '__proto__', { categoryId: 3n, status: 'available' }),
  ];
  test.each<[query: string, expected: string[]]>([
    ['name=REX', ['Rex', 'trex']],
    ['name=', zoo.map(({ name }) => name)],
    ['name=%C3%A9m', ['ÉMILE']],
    ['name=%22', ['a"quote']],
    ['name=quote&status=sold&category=1', ['a"quote']],
    ['name=%CE%BF%CF%82', ['ΟΔΟΣ']],
    ['name=__PROTO__', ['__proto__']],
    ['name=%5C', []],
    ['name=categoryId', []],
    ['status=sold', ['trex', 'a"quote', 'ΟΔΟΣ']],
    ['category=1', ['Rex', 'ÉMILE', 'a"quote']],
    ['category=1&status=available', ['Rex']],
    ['category=-1', []],
    ['after=4', ['ΟΔΟΣ', '__proto__']],
    ['limit=2', ['Rex', 'trex']],
    ['limit=1&category=2&after=2', ['ΟΔΟΣ']],
    ['__proto__=1&unknown=2&limit=1', ['Rex']],
  ])('?%s shows the animals that match', async (query, expected) => {
    expect(await (await startWithSeed({ pets: zoo })).names(query)).toEqual(expected);
  });

  test.each([
    'limit=0',
    'limit=1001',
    'limit=1e1',
    'limit=',
    'limit=1&limit=2',
    'status=Sold',
    'status=__proto__',
    'status=',
    'category=1.0',
    'category=9223372036854775808',
    'category=',
    'after=x',
    'after=-9223372036854775809',
    'after=+1',
    'name=%ff',
    'name=%ED%A0%80',
  ])('?%s is invalid', async (query) => {
    const { use } = await startWithSeed({});
    const response = await use(`/inventory?${query}`);
    expect([response.status, await response.json()]).toMatchObject([400, { code: 'invalid_request' }]);
  });

  test.each(['', 'limit=7', 'name=n', 'category=3', 'status=available&limit=1000', 'name=0&limit=999'])(
    'following `next` with ?%s shows every matching animal once',
    async (query) => {
      const { read, names } = await startWithSeed({ pets: many(120) });
      const found: string[] = [];
      let isEnd = false;
      for (let after = ''; !isEnd; ) {
        const { animals, next } = JSON.parse(await read(`/inventory?${query}${after}`));
        found.push(...animals.map(({ name }: { name: string }) => name));
        after = `&after=${next}`;
        isEnd = next === undefined;
      }
      const expected = many(120).map(({ name }) => name);
      expect(found).toEqual(
        query.includes('name=0') ? expected.filter((name) => name.includes('0')) : expected,
      );
      expect(await names('limit=1000')).toEqual(expected);
    },
  );

  test('a request reads a limited number of animals, even if none of them matches', async () => {
    const total = 2 * MAX_READ + 500;
    const { read } = await startWithSeed({ pets: many(total) });
    expect(await read('/inventory?name=nobody')).toBe(
      `{"animals":[],"next":"${MAX_READ}","read":${MAX_READ}}`,
    );
    expect(await read(`/inventory?name=nobody&after=${MAX_READ}`)).toBe(
      `{"animals":[],"next":"${2 * MAX_READ}","read":${MAX_READ}}`,
    );
    expect(await read(`/inventory?name=nobody&after=${2 * MAX_READ}`)).toBe('{"animals":[],"read":500}');
    expect(JSON.parse(await read(`/inventory?name=n${MAX_READ}`))).toMatchObject({
      animals: [{ id: MAX_READ }],
      next: String(MAX_READ),
    });
  });

  test('a response is limited to about 1 MiB', async () => {
    const pets = many(40).map((each) => ({ ...each, name: 'x'.repeat(60_000) }));
    const { read } = await startWithSeed({ pets });
    for (const query of ['limit=1000', 'limit=1000&name=x']) {
      const text = await read(`/inventory?${query}`);
      expect(text.length).toBeGreaterThan(1_000_000);
      expect(text.length).toBeLessThan(1_200_000);
      expect(text).toContain('"next":"18"');
    }
  });
});

describe('GET /inventory/counts', () => {
  test('animals are counted by status and category, also those that are added later and at the limits of int64', async () => {
    const { read, post } = await startWithSeed({
      pets: [
        pet(INT64_MIN, 'a', { categoryId: INT64_MIN }),
        pet(1n, 'b', { categoryId: INT64_MAX, status: 'sold' }),
        pet(2n, '__proto__', { categoryId: 0n, status: 'pending' }),
        pet(3n, '\ud800', { categoryId: INT64_MIN }),
      ],
    });
    const counts = [
      '{"status":"available","categoryId":-9223372036854775808,"animals":2}',
      '{"status":"pending","categoryId":0,"animals":1}',
      '{"status":"sold","categoryId":9223372036854775807,"animals":1}',
    ];
    const expected = `{"animals":4,"complete":true,"counts":[${counts.join(',')}]}`;
    expect(await read('/inventory/counts')).toBe(expected);
    expect(await read('/inventory/counts')).toBe(expected);
    await post('{"name":"c","categoryId":0,"status":"pending"}');
    expect(await read('/inventory/counts')).toBe(
      expected.replace('"categoryId":0,"animals":1', '"categoryId":0,"animals":2').replace('4,"c', '5,"c'),
    );
  });

  test('each request counts a limited number of animals; simultaneous requests count none twice', async () => {
    const { read, post } = await startWithSeed({ pets: many(2 * MAX_READ + 500) });
    const all = await Promise.all(Array.from({ length: 4 }, () => read('/inventory/counts')));
    expect(all.map((text) => JSON.parse(text)).map(({ animals, complete }) => [animals, complete])).toEqual([
      [MAX_READ, false],
      [2 * MAX_READ, false],
      [2 * MAX_READ + 500, true],
      [2 * MAX_READ + 500, true],
    ]);
    await post('{"name":"Rex","categoryId":1}');
    expect(JSON.parse(await read('/inventory/counts'))).toMatchObject({
      animals: 2 * MAX_READ + 501,
      counts: [
        { categoryId: 3, animals: 2 * MAX_READ + 500 },
        { categoryId: 1, animals: 1 },
      ],
    });
  });

  test(`after ${MAX_COUNTS} counts, further categories are counted together`, async () => {
    const pets = many(MAX_COUNTS + 5).map((each) => ({ ...each, categoryId: INT64_MAX - each.id }));
    pets.push(pet(30_000n, 'known', { categoryId: INT64_MAX - 1n }), pet(30_001n, 'x', { status: 'sold' }));
    const { read } = await startWithSeed({ pets });
    await read('/inventory/counts');
    const text = await read('/inventory/counts');
    expect(text).toContain(`{"animals":${pets.length},"complete":true,`);
    expect(text).toContain('{"status":"available","categoryId":9223372036854775806,"animals":2}');
    expect(text).toContain('{"status":"available","categoryId":null,"animals":5}');
    expect(text).toContain('{"status":"sold","categoryId":null,"animals":1}');
    expect(text.match(/"status"/g)).toHaveLength(MAX_COUNTS + 2);
  });

  test('a reset begins a new count, also while animals are counted', async () => {
    const { read, reset, post } = await startWithSeed({ pets: many(3_000) });
    await post('{"name":"Rex","categoryId":1}');
    expect(JSON.parse(await read('/inventory/counts'))).toMatchObject({ animals: 3_001 });
    await reset();
    const [text] = await Promise.all([read('/inventory/counts'), reset()]);
    expect(JSON.parse(text)).toEqual({
      animals: 3_000,
      complete: true,
      counts: [{ status: 'available', categoryId: 3, animals: 3_000 }],
    });
    await post('{"name":"Mia","categoryId":2}');
    expect(JSON.parse(await read('/inventory/counts'))).toMatchObject({
      animals: 3_001,
      counts: [{ animals: 3_000 }, { categoryId: 2, animals: 1 }],
    });
  });
});

test('a reset begins a new count, also if the last animal is then the same as before', async () => {
  const { read, reset, post } = await startWithSeed({});
  await post('{"name":"Rex","categoryId":1}');
  await post('{"name":"Mia","categoryId":2}');
  await read('/inventory/counts');
  await reset();
  await post('{"name":"Rex","categoryId":3}');
  await post('{"name":"Mia","categoryId":2}');
  const { counts } = JSON.parse(await read('/inventory/counts'));
  expect(counts).toMatchObject([{ categoryId: 3 }, { categoryId: 2 }]);
});

describe('GET /inventory/orders', () => {
  test('orders are shown byte for byte, up to a limited number', async () => {
    const { read, reset } = await startWithSeed({
      orders: [parseInt64('9223372036854775807'), '\ud800', null],
    });
    expect(await read('/inventory/orders')).toBe('{"orders":[9223372036854775807,"\\ud800",null],"total":3}');
    await reset();
    expect(await read('/inventory/orders')).toContain('"total":3');
    const many = await startWithSeed({ orders: Array.from({ length: MAX_ORDERS + 5 }, (_, i) => i) });
    const { orders: shown, total } = JSON.parse(await many.read('/inventory/orders'));
    expect([shown.length, shown[0], total]).toEqual([MAX_ORDERS, 0, MAX_ORDERS + 5]);
  });
});
