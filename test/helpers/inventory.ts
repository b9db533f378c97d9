import type { ServerResponse } from 'node:http';
import { reply, scriptedServer } from './scripted-server.ts';

/** Whether the service adds the animal of a request before it cuts the connection instead of responding. */
export type Loss = 'after adding' | 'before adding';

export type StoredPet = { id: number | string; name: string; categoryId: number; status: string };

export type InventoryOptions = {
  /** The animals that the service has at first. */
  pets?: StoredPet[];
  /** The id of the nth animal. The count includes the animals that the service has at first. */
  idOf?: (number: number) => StoredPet['id'];
  /** Lists pages of this size that are linked by offset. By default, one page has all animals. */
  pageSize?: number;
};

/** An inventory without support for idempotency keys. Fields of the result may be changed at any time. */
export async function inventoryWithoutKeys({
  pets = [],
  idOf = (number) => number,
  pageSize,
}: InventoryOptions = {}) {
  let count = pets.length;
  const server = await scriptedServer(({ method, url = '' }, response, _, body) => {
    if (method === 'GET') return list(Number(/offset=(\d+)/.exec(url)?.[1] ?? 0), response);
    const pet = JSON.parse(body);
    service.sent.push(pet.name);
    const loss = service.lose(pet.name);
    const stored = loss === 'before adding' ? undefined : service.add(pet);
    if (loss) response.destroy();
    else reply(response, 201, stored);
  });
  const service = {
    /** The base URL, with /v1. */
    url: server.url,
    pets,
    /** The names of the animals in the requests to add one. */
    sent: [] as string[],
    lists: 0,
    /** Decides whether a response is lost, by the name of the animal. */
    lose: (_name: string): Loss | undefined => undefined,
    /** Called for each request for a list. Returns true if it has sent the response itself. */
    onList: (_response: ServerResponse, _offset: number): boolean => false,
    add(pet: Omit<StoredPet, 'id' | 'status'> & { status?: string }): StoredPet {
      const stored = { status: 'available', ...pet, id: idOf(++count) };
      service.pets.push(stored);
      return stored;
    },
  };
  function list(offset: number, response: ServerResponse): void {
    service.lists++;
    if (service.onList(response, offset)) return;
    const end = offset + (pageSize ?? service.pets.length);
    const isLast = end >= service.pets.length;
    const link = isLast ? undefined : { Link: `</v1/pets?offset=${end}>; rel="next"` };
    reply(response, 200, service.pets.slice(offset, end), link);
  }
  return service;
}
