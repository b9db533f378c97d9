import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { isNotCarriedOut } from '../../../src/contract/error-codes.ts';
import { petStatuses } from '../../../src/contract/schemas.ts';
import { type ListedPet, listAllPets } from '../list-all-pets.ts';

/** Times of `performance.now()`. */
export type Period = { from: number; to: number };

/** A request that got a 5xx, or whose connection was cut (`status` 0). `path` has no query. */
export type Failure = Period & {
  server: number;
  method: string;
  path: string;
  status: number;
  code: string | undefined;
};

/** A response that has arrived completely. `next` is the path of the next page. */
type Reply = { status: number; code: string | undefined; body: string; next: string | undefined };

type Creation = { animal: Omit<ListedPet, 'id'> & { categoryId: number }; idempotencyKey?: string };

export type Load = Awaited<ReturnType<typeof startLoad>>;

const WRITERS = 8;
const LONGEST_WAIT_MS = 30_000;
/** A pause after a failure, so that an outage does not cause a flood of requests. */
const PAUSE_MS = 30;
/** How often a request with an idempotency key is repeated although its response has arrived. */
const NEEDLESS_REPEATS = 0.05;
const LONG_NAMES = 0.02;

/**
 * Runs a task while writers add animals and followers read animals on several servers. Afterwards, checks that
 * nothing was lost, added twice or changed.
 *
 * @param urls the base URLs of the servers
 * @param key an API key for all requests
 * @returns the failed requests
 */
export async function underLoad(
  urls: readonly string[],
  key: string,
  task: (load: Load) => Promise<unknown>,
): Promise<readonly Failure[]> {
  const load = startLoad(urls, key);
  // If a loop fails, the test fails at once.
  const failed = Promise.all(load.loops).then(() => new Promise<never>(() => {}));
  await Promise.race([task(load), failed]);
  await load.stop();
  return load.failures;
}

function startLoad(urls: readonly string[], key: string) {
  const failures: Failure[] = [];
  /** The ids of acknowledged animals by name. */
  const acknowledged = new Map<string, number>();
  /** The names of animals whose creation has no known outcome. */
  const ambiguous = new Set<string>();
  const errors: string[] = [];
  let hasStopped = false;
  let count = 0;
  const anyServer = () => Math.floor(Math.random() * urls.length);

  /** Sends a request: a creation, or a read. Resolves with undefined if the connection was cut. */
  async function send(server: number, path: string, creation?: Creation): Promise<Reply | undefined> {
    const method = creation ? 'POST' : 'GET';
    const from = performance.now();
    let reply: Reply | undefined;
    try {
      const response = await fetch(new URL(path, urls[server]), {
        method,
        headers: {
          Authorization: `Bearer ${key}`,
          ...(creation && { 'Content-Type': 'application/json' }),
          ...(creation?.idempotencyKey && { 'Idempotency-Key': `"${creation.idempotencyKey}"` }),
        },
        ...(creation && { body: JSON.stringify(creation.animal) }),
        signal: AbortSignal.timeout(LONGEST_WAIT_MS),
      });
      const { status } = response;
      const body = await response.text();
      const next = /^<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
      reply = { status, code: status >= 400 ? JSON.parse(body).code : undefined, body, next };
    } catch (error) {
      // A server that does not respond at all fails the test. A cut connection is a TypeError.
      if (!(error instanceof TypeError)) throw error;
    }
    const { status = 0, code } = reply ?? {};
    const to = performance.now();
    if (status === 0 || status >= 500)
      failures.push({ server, method, path: path.replace(/\?.*/, ''), status, code, from, to });
    return reply;
  }

  async function create(server: number, creation: Creation): Promise<Reply | undefined> {
    const reply = await send(server, '/v1/pets', creation);
    const { status = 503, code } = reply ?? {};
    const { name } = creation.animal;
    if (reply && status === 201) {
      const { id } = JSON.parse(reply.body);
      if ((acknowledged.get(name) ?? id) !== id) errors.push(`${name} got another id: ${id}`);
      acknowledged.set(name, id);
      ambiguous.delete(name);
    } else if (isNotCarriedOut({ status, code })) return reply;
    else if (status === 503 || code === 'idempotency_in_flight') ambiguous.add(name);
    else errors.push(`${name}: ${status} ${code}`);
    return reply;
  }

  function newAnimal(): Creation['animal'] {
    const name = `animal ${count}${Math.random() < LONG_NAMES ? ` ${'x'.repeat(20_000)}` : ''}`;
    return { name, categoryId: 1, status: petStatuses[count++ % petStatuses.length] as string };
  }

  async function addWithoutKey(): Promise<void> {
    const reply = await create(anyServer(), { animal: newAnimal() });
    if (reply?.status !== 201) await sleep(PAUSE_MS);
  }

  /** Repeats a creation until it is acknowledged. */
  async function addWithKey(): Promise<void> {
    const animal = newAnimal();
    const creation = { animal, idempotencyKey: animal.name.slice(0, 100) };
    while (!hasStopped && (await create(anyServer(), creation))?.status !== 201) await sleep(PAUSE_MS);
    if (Math.random() < NEEDLESS_REPEATS) await create(anyServer(), creation);
  }

  /**
   * Reads all animals, or those with a status, page by page, and the last page again and again, to see each animal soon
   * after its creation. Remembers pages with a next link, which must never change.
   */
  function follower(limit: number, wanted?: string) {
    const finalPages = new Map<string, string>();
    const ids: number[] = [];
    let path = `/v1/pets?limit=${limit}${wanted === undefined ? '' : `&status=${wanted}`}`;
    let turn = 0;
    const contentOf = ({ next, body }: Reply): string => `${next} ${body}`;
    return {
      async read(): Promise<void> {
        const reply = await send(turn++ % urls.length, path);
        if (reply?.status !== 200) return;
        const last = ids.at(-1) ?? 0;
        ids.push(...(JSON.parse(reply.body) as ListedPet[]).map(({ id }) => id).filter((id) => id > last));
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
          for (const [page, content] of finalPages) {
            const reply = await send(server, page);
            expect(reply && contentOf(reply), page).toBe(content);
          }
      },
    };
  }

  const repeat = async (action: () => Promise<void>, delay: number): Promise<void> => {
    while (!hasStopped) {
      await action();
      await sleep(delay);
    }
  };
  const followers = [follower(10), follower(50), follower(20, 'pending')];
  const loops = [
    ...Array.from({ length: WRITERS }, (_, i) => repeat(i % 2 === 0 ? addWithKey : addWithoutKey, 20)),
    ...followers.map(({ read }) => repeat(read, 10)),
  ];
  /** Waits until the response of one server to a request has this status. */
  const untilStatus = async (status: number, ask: () => Promise<Reply | undefined>): Promise<void> => {
    while ((await ask())?.status !== status) await sleep(10);
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
    async untilReadyz(status: 200 | 503): Promise<void> {
      await Promise.all(
        Array.from(urls.keys(), (server) => untilStatus(status, () => send(server, '/readyz'))),
      );
    },
    /** Waits until each server adds an animal and reads a page. */
    async untilAllWork(): Promise<void> {
      const works = async (server: number) => {
        await untilStatus(201, () => create(server, { animal: newAnimal() }));
        await untilStatus(200, () => send(server, '/v1/pets?limit=1'));
      };
      await Promise.all(Array.from(urls.keys(), works));
    },
    /** Ends the load, and checks the animals of the store against what was acknowledged and seen. */
    async stop(): Promise<void> {
      hasStopped = true;
      await Promise.all(loops);
      const pets = await listAllPets({ url: urls[0] ?? '', key });
      expect(errors).toEqual([]);
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
