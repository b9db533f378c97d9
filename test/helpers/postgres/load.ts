import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { isNotCarriedOut } from '../../../src/contract/api.ts';
import { petStatuses } from '../../../src/contract/schemas.ts';
import { type ListedPet, listAllPets } from '../list-all-pets.ts';
import type { FleetServer } from './fleet.ts';

/** A response, or a status of 0 if the connection was cut. `next` is the path of the next page. */
type Reply = { status: number; code?: string | undefined; body?: string; next?: string | undefined };

export type Load = Awaited<ReturnType<typeof startLoad>>;

const WRITERS = 8;
const LONGEST_WAIT_MS = 30_000;

/**
 * Runs a task while writers add animals and followers read animals on several servers. Afterwards, checks that
 * nothing was lost, added twice or changed, and that the servers have reported only outages.
 *
 * @param key an API key for all requests
 * @returns the failures of requests, such as `503 unavailable`, or `0` for a connection that was cut
 */
export async function underLoad(
  servers: readonly FleetServer[],
  key: string,
  task: (load: Load) => Promise<unknown>,
): Promise<string[]> {
  const load = startLoad(
    servers.map(({ url }) => url),
    key,
  );
  // If a loop fails, the test fails at once.
  const failed = Promise.all(load.loops).then(() => new Promise<never>(() => {}));
  await Promise.race([task(load), failed]);
  await load.stop();
  for (const server of servers) server.expectOnlyOutages();
  return [...load.failures];
}

function startLoad(urls: readonly string[], key: string) {
  const failures = new Set<string>();
  /** The ids of acknowledged animals by name. */
  const acknowledged = new Map<string, number>();
  /** The names of animals whose creation has no known outcome. */
  const ambiguous = new Set<string>();
  let hasStopped = false;
  let count = 0;

  /** Sends a GET request, or a POST request if there are headers and a body. */
  async function send(server: number, path: string, headers = {}, body?: object): Promise<Reply> {
    let reply: Reply = { status: 0 };
    try {
      const response = await fetch(new URL(path, urls[server]), {
        headers: { ...headers, Authorization: `Bearer ${key}` },
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(LONGEST_WAIT_MS),
      });
      const { status } = response;
      const text = await response.text();
      const next = /^<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
      reply = { status, code: status >= 400 ? JSON.parse(text).code : undefined, body: text, next };
    } catch (error) {
      // A server that does not respond at all fails the test. A cut connection is a TypeError.
      if (!(error instanceof TypeError)) throw error;
    }
    const { status, code = '' } = reply;
    if (status === 0 || status >= 500) failures.add(`${status} ${code}`.trim());
    return reply;
  }

  /** Adds an animal with a new name. With a key, repeats the request until it succeeds, and then once more. */
  async function add(server: () => number, hasKey: boolean): Promise<boolean> {
    const name = `animal ${count}`;
    const pet = { name, categoryId: 1, status: petStatuses[count++ % petStatuses.length] };
    const headers = {
      'Content-Type': 'application/json',
      ...(hasKey && { 'Idempotency-Key': `"${name}"` }),
    };
    let successes = 0;
    do {
      const { status, code, body = '' } = await send(server(), '/v1/pets', headers, pet);
      if (status === 201) {
        const { id } = JSON.parse(body);
        expect(acknowledged.get(name) ?? id, name).toBe(id);
        acknowledged.set(name, id);
        successes++;
        continue;
      }
      if (!isNotCarriedOut({ status: status || 503, code })) {
        expect(status === 0 || status === 503 || code === 'idempotency_in_flight', `${status} ${code}`).toBe(
          true,
        );
        if (!acknowledged.has(name)) ambiguous.add(name);
      }
      // An outage must not cause a flood of requests.
      await sleep(30);
    } while (hasKey && successes < 2 && !hasStopped);
    return successes > 0;
  }

  /**
   * Reads all animals, or those with a status, page by page, and the last page again and again, to see each animal soon
   * after its creation. Remembers pages with a next link, which must never change.
   */
  function follower(limit: number, wanted?: string) {
    const finalPages = new Map<string, string>();
    const ids: number[] = [];
    let path = `/v1/pets?limit=${limit}${wanted === undefined ? '' : `&status=${wanted}`}`;
    const contentOf = ({ next, body }: Reply): string => `${next} ${body}`;
    return {
      async read(): Promise<void> {
        const reply = await send(anyServer(), path);
        if (reply.status !== 200) return;
        const last = ids.at(-1) ?? 0;
        ids.push(
          ...(JSON.parse(reply.body ?? '') as ListedPet[]).map(({ id }) => id).filter((id) => id > last),
        );
        if (reply.next === undefined) return;
        finalPages.set(path, contentOf(reply));
        path = reply.next;
      },
      /** Checks that every animal up to the last one was seen in ascending order, and that no server changed a page. */
      async check(pets: readonly ListedPet[]): Promise<void> {
        const last = ids.at(-1) ?? 0;
        const seen = pets.filter(({ id, status }) => id <= last && (wanted ?? status) === status);
        expect(ids).toEqual(seen.map(({ id }) => id));
        for (const server of urls.keys())
          for (const [page, content] of finalPages)
            expect(contentOf(await send(server, page)), page).toBe(content);
      },
    };
  }

  const anyServer = () => Math.floor(Math.random() * urls.length);
  const repeat = async (action: () => Promise<unknown>): Promise<void> => {
    while (!hasStopped) {
      await action();
      await sleep(15);
    }
  };
  const followers = [follower(10), follower(20, 'pending')];
  const loops = [
    ...Array.from({ length: WRITERS }, (_, i) => repeat(() => add(anyServer, i % 2 === 0))),
    ...followers.map(({ read }) => repeat(read)),
  ];
  /** Waits until a condition is true for each server. */
  const untilEach = async (condition: (server: number) => Promise<boolean>): Promise<void> => {
    const wait = async (server: number) => {
      while (!(await condition(server))) await sleep(10);
    };
    await Promise.all(Array.from(urls.keys(), wait));
  };

  return {
    failures,
    acknowledged,
    ambiguous,
    loops,
    /** Waits until this many more animals were acknowledged. */
    async untilAdded(more: number): Promise<void> {
      const before = acknowledged.size;
      while (acknowledged.size < before + more) await sleep(10);
    },
    /** Waits until /readyz of each server has this status. */
    untilReadyz: (status: 200 | 503) =>
      untilEach(async (server) => (await send(server, '/readyz')).status === status),
    /** Waits until each server adds an animal and reads a page. */
    untilAllWork: () =>
      untilEach(
        async (server) =>
          (await add(() => server, false)) && (await send(server, '/v1/pets?limit=1')).status === 200,
      ),
    /** Ends the load, and checks the animals of the store against what was acknowledged and seen. */
    async stop(): Promise<void> {
      hasStopped = true;
      await Promise.all(loops);
      const pets = await listAllPets({ url: urls[0] ?? '', key });
      const listed = new Map(pets.map(({ id, name }) => [name, id]));
      expect(pets.length - listed.size, 'animals that were added twice').toBe(0);
      const lost = [...acknowledged].filter(([name, id]) => listed.get(name) !== id);
      expect(lost, 'acknowledged animals that were lost').toEqual([]);
      const unknown = [...listed.keys()].filter((name) => !acknowledged.has(name) && !ambiguous.has(name));
      expect(unknown, 'animals of rejected requests').toEqual([]);
      for (const each of followers) await each.check(pets);
    },
  };
}
