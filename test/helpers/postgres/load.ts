import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { isNotCarriedOut } from '../../../src/contract/error-codes.ts';
import { petStatuses } from '../../../src/contract/schemas.ts';
import { type ListedPet, listAllPets } from '../list-all-pets.ts';
import type { FleetServer } from './fleet.ts';

export type Load = {
  traffic: Traffic;
  writers: Writers;
  /** Waits until this many more animals were acknowledged. */
  untilAdded(count: number): Promise<void>;
};

/**
 * Runs a task while writers add animals and followers read animals on several servers. Afterwards, checks that
 * nothing was lost, added twice or changed.
 *
 * @param key an API key for all requests
 * @returns the failed requests
 */
export async function underLoad(
  servers: readonly FleetServer[],
  key: string,
  task: (load: Load) => Promise<unknown>,
): Promise<Exchange[]> {
  const traffic = new Traffic(servers, key);
  const writers = new Writers(traffic);
  for (let i = 0; i < WRITERS; i++) writers.start(i % 2 === 0);
  const followers = [
    new Follower(traffic, 10),
    new Follower(traffic, 50),
    new Follower(traffic, 20, 'pending'),
  ];
  for (const follower of followers) follower.start();
  await traffic.during(() =>
    task({
      traffic,
      writers,
      async untilAdded(count) {
        const before = writers.acknowledged.size;
        while (writers.acknowledged.size < before + count) await sleep(10);
      },
    }),
  );
  await traffic.stop();
  const pets = await listAllPets({ url: servers[0]?.url ?? '', key });
  writers.check(pets);
  const { failures } = traffic;
  for (const follower of followers) {
    follower.checkIds(pets);
    await follower.checkPages();
  }
  return failures;
}

const WRITERS = 8;

/** A response that has arrived completely. `next` is the path of the next page. */
export type Reply = {
  status: number;
  code: string | undefined;
  body: string;
  next?: string;
};

/** Times of `performance.now()`. */
export type Period = { from: number; to: number };

/** A request that got a 5xx, or whose connection was cut (`status` 0). `path` has no query. */
export type Exchange = Period & {
  server: number;
  method: string;
  path: string;
  status: number;
  code: string | undefined;
};

/** A creation. Without it, a request is a read. */
type Creation = { animal: Animal; idempotencyKey?: string | undefined };

/** Sends requests to several servers, and records those that failed. */
export class Traffic {
  readonly servers: readonly FleetServer[];
  readonly failures: Exchange[] = [];
  #key: string;
  hasStopped = false;
  #loops: Promise<void>[] = [];

  constructor(servers: readonly FleetServer[], key: string) {
    this.servers = servers;
    this.#key = key;
  }

  /** Sends a request. Resolves with undefined if the connection was cut. */
  async send(server: number, path: string, creation?: Creation): Promise<Reply | undefined> {
    const method = creation ? 'POST' : 'GET';
    const from = performance.now();
    let reply: Reply | undefined;
    try {
      const response = await fetch(new URL(path, this.servers[server]?.url), {
        method,
        headers: {
          Authorization: `Bearer ${this.#key}`,
          ...(creation && { 'Content-Type': 'application/json' }),
          ...(creation?.idempotencyKey && { 'Idempotency-Key': `"${creation.idempotencyKey}"` }),
        },
        ...(creation && { body: JSON.stringify(creation.animal) }),
        signal: AbortSignal.timeout(LONGEST_WAIT_MS),
      });
      reply = await readReply(response);
    } catch (error) {
      // A server that does not respond at all fails the test. A cut connection is a TypeError.
      if (!(error instanceof TypeError)) throw error;
    }
    const { status = 0, code } = reply ?? {};
    const pathname = path.replace(/\?.*/, '');
    if (status === 0 || status >= 500)
      this.failures.push({ server, method, path: pathname, status, code, from, to: performance.now() });
    return reply;
  }

  /** Repeats an action until `stop`, with a delay between the calls. */
  repeat(action: () => Promise<void>, delay: number): void {
    const loop = async () => {
      while (!this.hasStopped) {
        await action();
        await sleep(delay);
      }
    };
    this.#loops.push(loop());
  }

  /** Runs a task. Rejects early if one of the loops fails. */
  async during<Result>(task: () => Promise<Result>): Promise<Result> {
    const failed = Promise.all(this.#loops).then(() => new Promise<never>(() => {}));
    return Promise.race([task(), failed]);
  }

  /** Ends the loops after their current action. */
  async stop(): Promise<void> {
    this.hasStopped = true;
    await Promise.all(this.#loops);
  }
}

const LONGEST_WAIT_MS = 30_000;

async function readReply(response: Response): Promise<Reply> {
  const { status } = response;
  const body = await response.text();
  const code = status >= 400 ? (JSON.parse(body) as { code: string }).code : undefined;
  const next = /^<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
  return { status, code, body, ...(next !== undefined && { next }) };
}

/** How often a request with an idempotency key is repeated although its response has arrived. */
const NEEDLESS_REPEATS = 0.05;
const LONG_NAMES = 0.02;
const LONG_NAME = 'x'.repeat(20_000);

/** A pause after a failure, so that an outage does not cause a flood of requests. */
const PAUSE_MS = 30;

type Animal = Omit<ListedPet, 'id'> & { categoryId: number };

/** Adds animals, and remembers which of them were acknowledged. */
export class Writers {
  /** The ids of acknowledged animals by name. */
  readonly acknowledged = new Map<string, number>();
  /** The names of animals whose creation has no known outcome. */
  readonly ambiguous = new Set<string>();
  #errors: string[] = [];
  #traffic: Traffic;
  #count = 0;

  constructor(traffic: Traffic) {
    this.#traffic = traffic;
  }

  /** Starts a writer. With `hasKeys`, it repeats each creation until the creation is acknowledged. */
  start(hasKeys: boolean, delay = 20): void {
    this.#traffic.repeat(hasKeys ? () => this.#addWithKey() : () => this.#addWithoutKey(), delay);
  }

  /** Adds an animal to one server. Sends the request once. */
  add(server: number): Promise<Reply | undefined> {
    return this.#add(server, { animal: this.#newAnimal() });
  }

  /** Checks the animals of the store against what was acknowledged. */
  check(pets: readonly ListedPet[]): void {
    expect(this.#errors).toEqual([]);
    const listed = new Map(pets.map(({ id, name }) => [name, id]));
    expect(pets.length - listed.size, 'animals that were added twice').toBe(0);
    const lost = [...this.acknowledged].filter(([name, id]) => listed.get(name) !== id);
    expect(lost, 'acknowledged animals that were lost').toEqual([]);
    const isKnown = (name: string) => this.acknowledged.has(name) || this.ambiguous.has(name);
    const unknown = [...listed.keys()].filter((name) => !isKnown(name));
    expect(unknown, 'animals of rejected requests').toEqual([]);
    expect(new Set(this.acknowledged.values()).size, 'different ids').toBe(this.acknowledged.size);
  }

  async #addWithoutKey(): Promise<void> {
    const reply = await this.add(this.#anyServer());
    if (reply?.status !== 201) await sleep(PAUSE_MS);
  }

  async #addWithKey(): Promise<void> {
    const animal = this.#newAnimal();
    const creation = { animal, idempotencyKey: animal.name.slice(0, 100) };
    while (!this.#traffic.hasStopped) {
      const reply = await this.#add(this.#anyServer(), creation);
      if (reply?.status === 201) {
        if (Math.random() < NEEDLESS_REPEATS) await this.#add(this.#anyServer(), creation);
        return;
      }
      await sleep(PAUSE_MS);
    }
  }

  async #add(server: number, creation: Creation): Promise<Reply | undefined> {
    const reply = await this.#traffic.send(server, '/v1/pets', creation);
    const { status = 503, code } = reply ?? {};
    const { name } = creation.animal;
    if (reply && status === 201) this.#acknowledge(name, (JSON.parse(reply.body) as ListedPet).id);
    else if (isNotCarriedOut({ status, code })) return reply;
    else if (status === 503 || code === 'idempotency_in_flight') this.ambiguous.add(name);
    else this.#errors.push(`${name}: ${status} ${code}`);
    return reply;
  }

  #acknowledge(name: string, id: number): void {
    const first = this.acknowledged.get(name) ?? id;
    if (id !== first) this.#errors.push(`${name} got the ids ${first} and ${id}`);
    this.acknowledged.set(name, id);
    this.ambiguous.delete(name);
  }

  #newAnimal(): Animal {
    const number = this.#count++;
    const name = `animal ${number}${Math.random() < LONG_NAMES ? ` ${LONG_NAME}` : ''}`;
    return { name, categoryId: 1, status: petStatuses[number % petStatuses.length] as string };
  }

  #anyServer(): number {
    return Math.floor(Math.random() * this.#traffic.servers.length);
  }
}

/**
 * Reads all animals, or those with a status, page by page, and the last page again and again, to see each animal soon
 * after its creation. Remembers pages with a next link, which must never change.
 */
export class Follower {
  /** The contents of the final pages, which are those with a next link, by their paths. */
  readonly #final = new Map<string, string>();
  readonly #ids: number[] = [];
  #traffic: Traffic;
  #status: string | undefined;
  #path: string;
  #turn = 0;

  constructor(traffic: Traffic, limit: number, status?: string) {
    this.#traffic = traffic;
    this.#status = status;
    this.#path = `/v1/pets?limit=${limit}${status === undefined ? '' : `&status=${status}`}`;
  }

  start(delay = 10): void {
    this.#traffic.repeat(() => this.#read(), delay);
  }

  /** Checks that the follower has seen every animal up to the last one that it has seen, in ascending order. */
  checkIds(pets: readonly ListedPet[]): void {
    const last = this.#ids.at(-1) ?? 0;
    const wanted = pets.filter(({ id, status }) => id <= last && (this.#status ?? status) === status);
    expect(this.#ids).toEqual(wanted.map(({ id }) => id));
  }

  /** Reads all final pages again, from each server, and checks that no page has changed. */
  async checkPages(): Promise<void> {
    const readAll = async (server: number) => {
      for (const [path, content] of this.#final) {
        const reply = await this.#traffic.send(server, path);
        expect(reply && contentOf(reply), path).toBe(content);
      }
    };
    await Promise.all(this.#traffic.servers.map((_, server) => readAll(server)));
  }

  async #read(): Promise<void> {
    const server = this.#turn++ % this.#traffic.servers.length;
    const path = this.#path;
    const reply = await this.#traffic.send(server, path);
    if (reply?.status !== 200) return;
    const last = this.#ids.at(-1) ?? 0;
    const ids = (JSON.parse(reply.body) as ListedPet[]).map(({ id }) => id);
    this.#ids.push(...ids.filter((id) => id > last));
    if (reply.next === undefined) return;
    this.#final.set(path, contentOf(reply));
    this.#path = reply.next;
  }
}

const contentOf = ({ next, body }: Reply): string => `${next} ${body}`;
