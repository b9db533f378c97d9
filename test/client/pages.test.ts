import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { listPages } from '../../src/client/client.ts';
import { ApiFailure, ContractError } from '../../src/client/errors.ts';
import type { Pet } from '../../src/contract/schemas.ts';
import { PET, rejection, testClient } from '../helpers/client.ts';
import { gate } from '../helpers/gate.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

const link = (page: number) => ({ Link: `</v1/pets?page=${page}>; rel="next"` });

/** Links each page to the next one, up to the last page. Each page has one animal, whose id is the page number. */
const pagesTo =
  (last: number): Handler =>
  (_, response, count) =>
    reply(response, 200, [{ ...PET, id: count }], count < last ? link(count + 1) : {});

const collect = async (handler: Handler, options: { pageSize?: number; all?: boolean } = {}) => {
  const { pageSize = 2, all = false } = options;
  const server = await scriptedServer(handler);
  const { client } = testClient(server.url);
  const pages: { ids: number[]; more: string }[] = [];
  const consume = async () => {
    for await (const { pets, more } of listPages(client, { limit: pageSize }, () => all)) {
      pages.push({ ids: pets.map(({ id }) => Number(id)), more });
    }
  };
  const error = await consume().catch((reason: unknown) => reason);
  return { pages, server, error };
};

describe.each([true, false])('pages, with prefetch: %s', (all) => {
  test('are requested once each, in order, to the last link', async () => {
    const { pages, server } = await collect(pagesTo(4), { pageSize: 1, all });
    expect(server.requests.map(({ url }) => url)).toEqual([
      '/v1/pets?limit=1',
      '/v1/pets?page=2',
      '/v1/pets?page=3',
      '/v1/pets?page=4',
    ]);
    // The last page is full and has no link. Nothing is missing, because this service sent links with the other pages.
    expect(pages).toEqual([1, 2, 3, 4].map((page) => ({ ids: [page], more: page < 4 ? 'yes' : 'no' })));
  });

  test.each([
    ['the same origin', '/v1/pets?page=2#top'],
    ['another host and port', 'http://internal.test:8080/v1/pets?page=2#top'],
    ['a user and password', 'http://user:secret@internal.test/v1/pets?page=2'],
  ])('of a link with %s are requested from the origin of the base URL', async (_name, target) => {
    const { pages, server } = await collect(
      (_, response, count) =>
        reply(response, 200, [PET], count === 1 ? { Link: `<${target}>; rel="next"` } : {}),
      { all },
    );
    expect(pages).toHaveLength(2);
    expect(server.requests.map(({ url }) => url)).toEqual(['/v1/pets?limit=2', '/v1/pets?page=2']);
  });

  const to =
    (target: string): Handler =>
    (_, response) =>
      reply(response, 200, [PET], { Link: `<${target}>; rel="next"` });
  test.each<[string, Handler, number, string]>([
    ['another origin above the base path', to('http://a.test/v1/../keys'), 1, 'http://a.test'],
    ['another protocol', to('mailto:a@b.test'), 1, 'mailto:a@b.test'],
    ['the same origin outside the base path', to('/pets?page=2'), 1, '/pets?page=2, outside '],
    ['an earlier page', (_, to, count) => reply(to, 200, [PET], link(count % 2)), 3, 'an earlier page'],
  ])('are not followed to %s', async (_name, handler, requests, reason) => {
    const { error, server } = await collect(handler, { all });
    expect(error).toBeInstanceOf(ContractError);
    expect((error as Error).message).toMatch(/, so it was not followed$|^invalid link /);
    expect((error as Error).message).toContain(reason);
    expect(server.requests).toHaveLength(requests);
  });
});

const ANY_LINK = ['</a>; rel=prev', '<?b=1>; title="a, b"; rel="x next"'];
test.each<[string, object[], Record<string, string | string[]>, string[]]>([
  ['a page that is not full and has no link', [PET], {}, ['no']],
  ['a full page that links only to the first one', [PET, PET], { Link: '</v1/pets>; rel="first"' }, ['no']],
  ['a full page without a link', [PET, PET], {}, ['unknown']],
  ['two relations in a repeated header', [PET], { Link: ANY_LINK }, ['yes', 'no']],
])('after %s, are there more pages?', async (_name, body, headers, more) => {
  const { Link: _, ...later } = headers;
  const { pages } = await collect((_request, response, count) =>
    reply(response, 200, count === 1 ? body : [PET], count === 1 ? headers : later),
  );
  expect(pages.map((page) => page.more)).toEqual(more);
});

async function start(handler: Handler) {
  const server = await scriptedServer(handler);
  const tested = testClient(server.url);
  const pages = listPages(tested.client, { limit: 1 }, () => true);
  const next = async () => (await pages.next()).value?.pets.map(({ id }: Pet) => Number(id));
  const requested = (count: number) => expect.poll(() => server.requests).toHaveLength(count);
  return { server, pages, next, requested, ...tested };
}

test('the caller decides about each prefetch, and each page is requested once', async () => {
  const server = await scriptedServer(pagesTo(3));
  const { client } = testClient(server.url);
  let asked = 0;
  const pages = listPages(client, { limit: 1 }, () => ++asked === 1);
  await pages.next();
  await expect.poll(() => server.requests).toHaveLength(2);
  await pages.next();
  await sleep(50);
  expect(server.requests).toHaveLength(2);
  await pages.next();
  expect([server.requests.length, (await pages.next()).done]).toEqual([3, true]);
  // The last page has no next page that could be prefetched.
  expect(asked).toBe(2);
});

test.each<[string, Handler, typeof ApiFailure | typeof ContractError]>([
  ['an error', (_, response) => replyError(response, 400), ApiFailure],
  ['an invalid body', (_, response) => reply(response, 200, [{ id: 'x' }]), ContractError],
])('the prefetch with %s: the error surfaces when the page is consumed', async (_name, second, kind) => {
  const { next, requested } = await start((request, response, count) =>
    count === 1 ? pagesTo(2)(request, response, count) : second(request, response, count),
  );
  expect(await next()).toEqual([1]);
  await requested(2);
  await sleep(50);
  expect(await rejection(next())).toBeInstanceOf(kind);
});

test('the prefetch is ended without an error or a retry when the client is closed', async () => {
  const closed = gate();
  const { pages, next, requested, server, client, slept } = await start((request, response, count) => {
    if (count === 1) pagesTo(2)(request, response, count);
    else request.socket.once('close', closed.open);
  });
  await next();
  await requested(2);
  await pages.return(undefined);
  await client.close();
  await closed.opened;
  await sleep(50);
  expect([slept, server.requests.length]).toEqual([[], 2]);
});
