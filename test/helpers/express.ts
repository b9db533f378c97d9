import { createServer } from 'node:http';
import express, { type Response } from 'express';
import { listenOnLoopback } from './listen.ts';

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
  const service = {
    host: '',
    pets,
    /** The names of the animals in the requests to add one. */
    sent: [] as string[],
    lists: 0,
    /** Decides whether a response is lost, by the name of the animal. */
    lose: (_name: string): Loss | undefined => undefined,
    /** Called for each request for a list. Returns true if it has sent the response itself. */
    onList: (_response: Response, _offset: number): boolean => false,
    add(pet: Omit<StoredPet, 'id' | 'status'> & { status?: string }): StoredPet {
      const stored = { status: 'available', ...pet, id: idOf(++count) };
      service.pets.push(stored);
      return stored;
    },
  };
  const app = express();
  app.get('/v1/pets', (request, response) => {
    service.lists++;
    const offset = Number(request.query['offset'] ?? 0);
    if (service.onList(response, offset)) return;
    const end = offset + (pageSize ?? service.pets.length);
    if (end < service.pets.length) response.links({ next: `/v1/pets?offset=${end}` });
    response.json(service.pets.slice(offset, end));
  });
  app.post('/v1/pets', express.json(), (request, response) => {
    service.sent.push(request.body.name);
    const loss = service.lose(request.body.name);
    const stored = loss === 'before adding' ? undefined : service.add(request.body);
    if (loss) response.destroy();
    else response.status(201).json(stored);
  });
  service.host = `127.0.0.1:${await listenOnLoopback(createServer(app))}`;
  return service;
}
