import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import {
  createPacedStore,
  MAX_READ,
  readAnimals,
  splitAnimals,
} from '../../../src/server/tools/read-animals.ts';
import { StoreDamagedError } from '../../../src/store/errors.ts';

describe('the texts of a page', () => {
  test.each([
    ['{"id":1,"name":"Rex","categoryId":3,"status":"sold"}', '"Rex"', '3'],
    ['{"id":1,"name":"Rex","categoryId":-0,"status":"sold"}', '"Rex"', '0'],
    ['{"id":1,"name":"Rex","categoryId":3.0,"status":"sold"}', '"Rex"', '3'],
    [
      '{"name":"R\\u0065x","id":1,"status":"sold","categoryId":9223372036854775807}',
      '"Rex"',
      '9223372036854775807',
    ],
    ['{"id":1,"name":"\\"},{\\"","categoryId":3,"status":"sold"}', '"\\"},{\\""', '3'],
    ['{"id":1,"name":"}\\\\","categoryId":3,"status":"sold","tags":[{"a":{}},"}{\\"",1.50]}', '"}\\\\"', '3'],
    ['{"id":1,"name":"\\ud800","categoryId":3,"status":"sold","__proto__":{"status":"x"}}', '"\\ud800"', '3'],
    ['{"id":1,"name":"Rex","categoryId":3,"status":"sold","name":"Mia"}', '"Mia"', '3'],
  ])('%s is one animal, also among others', (text, name, categoryId) => {
    const animal = { text, id: '1', name, categoryId, status: 'sold' };
    expect(splitAnimals([text, text, text].join(','))).toEqual([animal, animal, animal]);
  });

  test.each([
    '{}',
    'x',
    '{"id":1,"name":"Rex","categoryId":3,"status":"__proto__"}',
    '{"id":1,"name":"Rex","categoryId":9223372036854775808,"status":"sold","x":1}',
    '{"id":1,"name":"Rex","categoryId":3,"status":"sold"',
  ])('%s is reported as damaged', (text) => {
    expect(() => splitAnimals(text)).toThrow(StoreDamagedError);
  });
});

test('pages are read one at a time, with a pause before each', async () => {
  let [turns, pages, running] = [0, 0, 0];
  const store = createPacedStore({
    get: async () => undefined,
    async list({ limit, after = 0n }) {
      expect(running++).toBe(0);
      await sleep(0);
      running--;
      pages++;
      const ids = Array.from({ length: limit }, (_, i) => Number(after) + i + 1);
      const texts = ids.map((id) => `{"id":${id},"name":"n","categoryId":1,"status":"sold"}`);
      return { pets: Buffer.from(texts.join(',')), next: after + BigInt(limit) };
    },
  });
  let ticking = setImmediate(function tick() {
    turns++;
    ticking = setImmediate(tick);
  });
  const read = () => readAnimals(store, { limit: MAX_READ }, () => true);
  expect(await Promise.all([read(), read(), read()])).toEqual(
    Array(3).fill({ read: MAX_READ, next: String(MAX_READ) }),
  );
  clearImmediate(ticking);
  expect(turns).toBeGreaterThanOrEqual(pages - 1);
});
