import { expect, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import type { Errand } from '../../src/server/errand.ts';
import { FinalAnswers } from '../../src/server/final-answers.ts';
import type { Answer } from '../../src/server/handlers.ts';
import { create, start } from '../helpers/service.ts';
import { MemoryStore } from '../helpers/store-memory.ts';

const REX = create('{"name":"Rex","categoryId":1}');

/** A service whose store counts how often it was asked for a page. */
async function startCounting() {
  const store = new MemoryStore();
  const list = store.list.bind(store);
  const asked = { times: 0 };
  store.list = (query) => {
    asked.times++;
    return list(query);
  };
  return { asked, ...(await start({ store, quota: plans.enterprise })) };
}

test.each(['/v1/pets?limit=2', '/v1/pets?limit=2&status=available'])(
  '%s: a page that has a next one is asked of the store twice, and stays as it is',
  async (path) => {
    const { asked, call } = await startCounting();
    for (let i = 0; i < 3; i++) await call('/v1/pets', REX);
    const pages = [];
    for (let i = 0; i < 4; i++) {
      const answer = await call(path);
      pages.push([answer.status, answer.headers.get('link'), await answer.text()]);
      await call('/v1/pets', REX);
    }
    expect(pages[0]).toEqual([200, expect.stringContaining('rel="next"'), expect.stringMatching(/"id":2,/)]);
    expect(pages).toEqual(Array(4).fill(pages[0]));
    expect(asked.times).toBe(2);
  },
);

test('the last page is asked of the store each time: what is added since is on it', async () => {
  const { call } = await startCounting();
  const ids: unknown[] = [];
  for (let i = 0; i < 3; i++) {
    await call('/v1/pets', REX);
    const pets = (await (await call('/v1/pets?limit=2')).json()) as { id: number }[];
    ids.push(pets.map(({ id }) => id));
  }
  expect(ids).toEqual([[1], [1, 2], [1, 2]]);
});

test('a remembered page is counted, needs a key, and is no answer to another method or preference', async () => {
  const { asked, call } = await startCounting();
  for (let i = 0; i < 3; i++) await call('/v1/pets', REX);
  const path = '/v1/pets?limit=2';
  const remaining = async () => Number((await call(path)).headers.get('x-ratelimit-remaining'));
  const before = await remaining();
  expect(await remaining()).toBe(before - 1);
  expect((await call(path, { headers: { Authorization: '' } })).status).toBe(401);
  expect((await call(path, REX)).status).toBe(201);
  expect((await call(path, { headers: { Prefer: 'code=503' } })).status).toBe(503);
  const head = await call(path, { method: 'HEAD' });
  expect([head.status, head.headers.get('link')]).toEqual([200, expect.stringContaining('rel="next"')]);
  expect(asked.times).toBe(2);
});

test('another page of the same store is another answer', async () => {
  const { call } = await startCounting();
  for (let i = 0; i < 5; i++) await call('/v1/pets', create(`{"name":"n${i}","categoryId":1}`));
  for (let i = 0; i < 3; i++) {
    expect(await (await call('/v1/pets?limit=1')).text()).toContain('"n0"');
    expect(await (await call('/v1/pets?limit=2')).text()).toContain('"n1"');
    expect(await (await call('/v1/pets?limit=1&status=sold')).text()).toBe('[]');
  }
});

const errand = (target: string): Errand => ({
  operation: 'listPets',
  target,
  path: '/v1/pets',
  resource: { operations: new Map(), params: {} },
});
const final = (body: string): Answer => ({ status: 200, headers: {}, body, isFinal: true });

test('only the last targets that were asked for twice are remembered', () => {
  const finals = new FinalAnswers();
  const targets = Array.from({ length: 1000 }, (_, i) => `/v1/pets?limit=${i}`);
  const ask = (target: string) => finals.add(errand(target), final(target));
  const known = () => targets.filter((target) => finals.get(errand(target))?.body === target);
  targets.forEach(ask);
  expect(known()).toEqual([]);
  targets.slice(-128).forEach(ask);
  expect(known()).toEqual(targets.slice(-128));
  // A walk drives out none of them.
  targets.slice(0, 872).forEach(ask);
  expect(known()).toEqual(targets.slice(-128));
  for (const target of targets.slice(0, 28)) for (let i = 0; i < 2; i++) ask(target);
  expect(known()).toEqual([...targets.slice(0, 28), ...targets.slice(-100)]);
  finals.clear();
  expect(known()).toEqual([]);
});

test('a store that has failed answers nothing, not even what was remembered', async () => {
  const { store, call } = await startCounting();
  for (let i = 0; i < 3; i++) await call('/v1/pets', REX);
  const path = '/v1/pets?limit=2';
  for (let i = 0; i < 3; i++) expect((await call(path)).status).toBe(200);
  const fail = () => Promise.reject(new Error('the disk is gone'));
  [store.add, store.list] = [fail, fail];
  expect((await call('/v1/pets', REX)).status).toBe(500);
  expect((await call(path)).status).toBe(500);
});

test('no answer is remembered that may change, and none that is large', () => {
  const finals = new FinalAnswers();
  for (let i = 0; i < 3; i++) {
    finals.add(errand('/changes'), { status: 200, headers: {}, body: '[]' });
    finals.add(errand('/large'), final('x'.repeat(2 ** 14 + 1)));
    finals.add(errand('/small'), final('x'.repeat(2 ** 14)));
  }
  const known = ['/changes', '/large', '/small'].map((target) => finals.get(errand(target)) !== undefined);
  expect(known).toEqual([false, false, true]);
});
