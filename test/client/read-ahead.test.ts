import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { ApiFailure, ContractError, InterruptedError } from '../../src/client/errors.ts';
import { openClient } from '../../src/client/open.ts';
import { listPages } from '../../src/client/pages.ts';
import type { Pet } from '../../src/contract/schemas.ts';
import { failureOf, KEY, PET, type TestClientOptions, testClient } from '../helpers/client.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// Who lists all has the next page asked for while one is used.

const link = (page: number) => ({ Link: `</v1/pets?page=${page}>; rel="next"` });

/** Page 1 leads to page 2, and so on; the last one leads nowhere. */
const pagesTo =
  (last: number): Handler =>
  (_, response, count) =>
    reply(response, 200, [{ ...PET, id: count }], count < last ? link(count + 1) : {});

async function start(handler: Handler, options?: TestClientOptions) {
  const server = await scriptedServer(handler);
  const { client, ...rest } = testClient(server.url, options);
  const pages = listPages(client, { limit: 1 }, 1, { all: true });
  const next = async () => (await pages.next()).value?.pets.map(({ id }: Pet) => Number(id));
  const asked = (count: number) => vi.waitFor(() => expect(server.requests).toHaveLength(count));
  return { server, pages, next, asked, ...rest };
}

test('the next page is asked for while one is used, and the one behind it is not', async () => {
  const { next, asked, server } = await start(pagesTo(4));
  expect(await next()).toEqual([1]);
  await asked(2);
  await sleep(50);
  expect(server.requests).toHaveLength(2);
  expect(await next()).toEqual([2]);
  await asked(3);
});

test('every page comes once, in its order', async () => {
  const { next, server } = await start(pagesTo(4));
  expect([await next(), await next(), await next(), await next(), await next()]).toEqual([
    [1],
    [2],
    [3],
    [4],
    undefined,
  ]);
  expect(server.requests.map(({ url }) => url)).toEqual([
    '/v1/pets?limit=1',
    '/v1/pets?page=2',
    '/v1/pets?page=3',
    '/v1/pets?page=4',
  ]);
});

test('who does not list all asks for no page but the one that is used', async () => {
  const server = await scriptedServer(pagesTo(3));
  const pages = listPages(testClient(server.url).client, { limit: 1 }, 1);
  await pages.next();
  await sleep(50);
  expect(server.requests).toHaveLength(1);
});

test.each<[string, Handler, typeof ApiFailure | typeof ContractError]>([
  [
    'an error',
    (_, response) => reply(response, 400, { code: 'bad', message: 'no such page', status: 400 }),
    ApiFailure,
  ],
  ['a page outside the contract', (_, response) => reply(response, 200, [{ id: 'x' }]), ContractError],
])('%s is told in its turn, behind the pages before it', async (_name, second, kind) => {
  const { next, asked } = await start((request, response, count) =>
    count === 1 ? pagesTo(2)(request, response, count) : second(request, response, count),
  );
  expect(await next()).toEqual([1]);
  await asked(2);
  await sleep(50);
  expect(await failureOf(next())).toBeInstanceOf(kind);
});

test('no page is asked for before a rate limit allows it; the one before is used meanwhile', async () => {
  const spent = {
    ...link(2),
    Date: 'Fri, 20 Nov 2026 12:00:00 GMT',
    'X-RateLimit-Remaining': '0',
    'X-RateLimit-Reset': `${Date.parse('2026-11-20T12:01:00Z') / 1_000}`,
  };
  const clock = manualClock();
  const minute = gate();
  const { next, server, waits } = await start(
    (_, response, count) => reply(response, 200, [{ ...PET, id: count }], count === 1 ? spent : {}),
    {
      clock,
      async sleep(milliseconds) {
        await minute.opened;
        clock.advance(milliseconds);
      },
    },
  );
  expect(await next()).toEqual([1]);
  await vi.waitFor(() => expect(waits).toMatchObject([{ reason: 'rate limit' }]));
  expect(server.requests).toHaveLength(1);
  minute.open();
  expect(await next()).toEqual([2]);
  expect(server.requests).toHaveLength(2);
});

test('an interrupt ends the page that is asked for, in its turn', async () => {
  const { next, asked, interrupt } = await start((request, response, count) => {
    if (count === 1) pagesTo(2)(request, response, count);
  });
  expect(await next()).toEqual([1]);
  await asked(2);
  interrupt();
  expect(await failureOf(next())).toBeInstanceOf(InterruptedError);
});

test('whoever stops before hears nothing of the page that is asked for, and nobody asks again', async () => {
  const closed = gate();
  const server = await scriptedServer((request, response, count) => {
    if (count === 1) pagesTo(2)(request, response, count);
    else request.socket.once('close', closed.open);
  });
  const slept: number[] = [];
  const { client, close } = openClient({
    baseUrl: server.url,
    key: KEY,
    marksDirectory: await temporaryDirectory(),
    clock: { now: () => Date.now() },
    random: () => 0,
    signal: new AbortController().signal,
    timeoutMilliseconds: 10_000,
    maxWaitMilliseconds: 75_000,
    sleep: async (milliseconds) => {
      slept.push(milliseconds);
    },
  });
  onTestFinished(close);
  for await (const _ of listPages(client, { limit: 1 }, 1, { all: true })) {
    await vi.waitFor(() => expect(server.requests).toHaveLength(2));
    break;
  }
  await close();
  await closed.opened;
  await sleep(50);
  expect([slept, server.requests.length]).toEqual([[], 2]);
});

test.each<[string, Handler, number]>([
  ['in a circle', (_, response, count) => reply(response, 200, [PET], link(count % 2)), 3],
  ['from empty page to empty page', (_, response, count) => reply(response, 200, [], link(count)), 11],
  ['elsewhere', (_, response) => reply(response, 200, [PET], { Link: '<http://a.test/>; rel="next"' }), 1],
])('pages that lead %s are not followed one further', async (_name, handler, requests) => {
  const { pages, server } = await start(handler);
  const error = await failureOf(
    (async () => {
      for await (const _ of pages);
    })(),
  );
  expect((error as Error).message).toContain('not followed');
  expect(server.requests).toHaveLength(requests);
});
