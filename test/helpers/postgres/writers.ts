import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { petStatuses } from '../../../src/contract/schemas.ts';
import type { ListedPet } from '../list-all-pets.ts';
import type { Reply, Traffic } from './traffic.ts';

/** How often a request with an idempotency key is repeated although its response has arrived. */
const NEEDLESS_REPEATS = 0.05;
const LONG_NAMES = 0.02;
const LONG_NAME = 'x'.repeat(20_000);

/** A pause after a failure, so that an outage does not cause a flood of requests. */
const PAUSE_MS = 30;

type Animal = Omit<ListedPet, 'id'> & { categoryId: number };

type AddOptions = { idempotencyKey?: string; key?: string };

/** Adds animals, and remembers which of them were acknowledged. */
export class Writers {
  /** The ids of acknowledged animals by name. */
  readonly acknowledged = new Map<string, number>();
  /** The names of animals whose creation has no known outcome. */
  readonly ambiguous = new Set<string>();
  /** How often a creation was repeated with its idempotency key, because it had no known outcome. */
  repeats = 0;
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
  add(server: number, key?: string): Promise<Reply | undefined> {
    return this.#add(server, this.#newAnimal(), key === undefined ? {} : { key });
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
    const reply = await this.#add(this.#anyServer(), this.#newAnimal(), {});
    if (reply?.status !== 201) await sleep(PAUSE_MS);
  }

  async #addWithKey(): Promise<void> {
    const animal = this.#newAnimal();
    const options = { idempotencyKey: animal.name.slice(0, 100) };
    while (!this.#traffic.hasStopped) {
      const reply = await this.#add(this.#anyServer(), animal, options);
      if (reply?.status === 201) {
        if (Math.random() < NEEDLESS_REPEATS) await this.#add(this.#anyServer(), animal, options);
        return;
      }
      this.repeats += 1;
      await sleep(PAUSE_MS);
    }
  }

  async #add(
    server: number,
    animal: Animal,
    { idempotencyKey, key }: AddOptions,
  ): Promise<Reply | undefined> {
    const reply = await this.#traffic.send(server, '/v1/pets', {
      method: 'POST',
      body: animal,
      ...(idempotencyKey !== undefined && { idempotencyKey }),
      ...(key !== undefined && { key }),
    });
    const { status = 503, code } = reply ?? {};
    const { name } = animal;
    if (reply && status === 201) this.#acknowledge(name, (JSON.parse(reply.body) as ListedPet).id);
    else if (status === 503 || code === 'idempotency_in_flight') this.ambiguous.add(name);
    else if (status !== 429) this.#errors.push(`${name}: ${status} ${code}`);
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
