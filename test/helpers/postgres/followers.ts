import { expect } from 'vitest';
import type { ListedPet } from '../list-all-pets.ts';
import type { Reply, Traffic } from './traffic.ts';

/**
 * Reads all animals page by page, and the last page again and again, so that it sees each animal soon after its creation.
 * Remembers pages with a next link, which must never change.
 */
export class Follower {
  /** The contents of the final pages, which are those with a next link, by their paths. */
  readonly #final = new Map<string, string>();
  readonly #ids: number[] = [];
  readonly #changed: string[] = [];
  #traffic: Traffic;
  #status: string | undefined;
  #path: string;
  #turn = 0;

  constructor(traffic: Traffic, limit: number, status?: string) {
    this.#traffic = traffic;
    this.#status = status;
    this.#path = `/v1/pets?limit=${limit}${status === undefined ? '' : `&status=${status}`}`;
  }

  /** The number of final pages. */
  get pages(): number {
    return this.#final.size;
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

  /** Reads all final pages again, from each server, and checks that no page has ever changed. */
  async checkPages(): Promise<void> {
    const paths = [...this.#final.keys()];
    const readAll = async (server: number) => {
      for (const path of paths) this.#compare(path, await this.#traffic.send(server, path));
    };
    await Promise.all(this.#traffic.servers.map((_, server) => readAll(server)));
    expect(this.#changed).toEqual([]);
  }

  async #read(): Promise<void> {
    const server = this.#turn++ % this.#traffic.servers.length;
    if (this.#turn % 10 === 0) await this.#readAgain(server);
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

  async #readAgain(server: number): Promise<void> {
    const paths = [...this.#final.keys()];
    const path = paths[Math.floor(Math.random() * paths.length)];
    if (path === undefined) return;
    const reply = await this.#traffic.send(server, path);
    if (reply?.status === 200) this.#compare(path, reply);
  }

  #compare(path: string, reply: Reply | undefined): void {
    if (reply === undefined || contentOf(reply) !== this.#final.get(path)) this.#changed.push(path);
  }
}

const contentOf = ({ next, body }: Reply): string => `${next} ${body}`;
