import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import { parseJson } from '../../../src/contract/json.ts';
import { operations } from '../../../src/contract/operations.ts';
import { petJson } from '../../../src/contract/schemas.ts';
import type { CreateRequest } from '../../../src/store/store.ts';
import type { RawResponse } from '../raw-client.ts';
import type { FuzzedRequest } from './requests.ts';

export type Exchange = { request: FuzzedRequest; response: RawResponse };

type Creation = { pet: CreateRequest['pet']; body: string; at: number };
type Created = {
  response: RawResponse;
  flight: number;
  pet: CreateRequest['pet'];
  /** The caller and the idempotency key in one string; undefined without an idempotency key. */
  name: string | undefined;
};

const DAY = 86_400_000;

/**
 * Derives from the responses what the service must have done. Requests are sent in waves. The requests of a wave run
 * concurrently, so only the order within a connection is checked. test/store/contract/limits.ts checks limits and bans.
 */
export class Model {
  /** Every acknowledged animal, by its id. */
  readonly pets = new Map<bigint, string>();
  readonly #creations = new Map<string, Creation>();

  /** Checks the responses of a wave, grouped by connection, against all earlier waves. */
  accept(flights: readonly (readonly Exchange[])[], now: number): void {
    const exchanges = flights.flat();
    const before = this.pets.size;
    this.#acceptCreated(flights, now);
    for (const exchange of exchanges) this.#acceptRead(exchange, before, now);
  }

  #acceptCreated(flights: readonly (readonly Exchange[])[], now: number): void {
    const created = flights.flatMap((exchanges, flight) =>
      exchanges.flatMap((each) => asCreated(each, flight)),
    );
    const last = BigInt(this.pets.size);
    const isReplay = ({ response }: Created) => response.headers['idempotency-replayed'] === 'true';
    for (const each of created.filter((each) => each.response.status === 201 && !isReplay(each))) {
      this.#acceptAdded(each, now);
    }
    const ids = [...this.pets.keys()].filter((id) => id > last).sort((a, b) => Number(a - b));
    expect(ids, 'ids after the last one, without a gap').toEqual(ids.map((_, i) => last + BigInt(i + 1)));
    expect(BigInt(this.pets.size), 'no id twice').toBe(last + BigInt(ids.length));
    for (const each of created.filter((each) => each.response.status !== 201 || isReplay(each))) {
      this.#acceptRepeated(each, created);
    }
  }

  /** Checks that a new animal is the one that was sent, with a new id and an unused idempotency key. */
  #acceptAdded({ response, pet, name }: Created, now: number): void {
    const { id } = parseJson(response.body) as { id: number };
    expect(this.pets.has(BigInt(id)), `id ${id} was given before`).toBe(false);
    expect(response.body).toBe(petJson({ id: BigInt(id), ...pet }));
    this.pets.set(BigInt(id), response.body);
    if (name === undefined) return;
    const known = this.#creations.get(name);
    expect(known === undefined || now - known.at >= DAY, `${name} was added before`).toBe(true);
    this.#creations.set(name, { pet, body: response.body, at: now });
  }

  /** Checks that a repeated creation gets the first response, 422 for another animal, or 409 during the first one. */
  #acceptRepeated({ response, pet, name, flight }: Created, wave: readonly Created[]): void {
    const known = this.#creations.get(name ?? '');
    if (response.status === 409) {
      const isRace = wave.some((other) => other.name === name && other.flight !== flight);
      expect(isRace, `${name} is in flight elsewhere`).toBe(true);
    } else {
      expect(known, `a first creation as ${name}`).toBeDefined();
      expect(isDeepStrictEqual(known?.pet, pet), `${name} comes with the same animal`).toBe(
        response.status === 201,
      );
      if (response.status === 201) expect(response.body).toBe(known?.body);
    }
  }

  /** Checks that an acknowledged animal can be read, and that the response is 410 after the operation is removed. */
  #acceptRead({ request, response }: Exchange, before: number, now: number): void {
    if (request.reads === undefined || ![200, 404, 410].includes(response.status)) return;
    const isRemoved = now >= operations.getPet.deprecated.sunset.getTime();
    const isKnown = request.reads > 0n && request.reads <= BigInt(before);
    const promised = this.pets.get(request.reads);
    if (isRemoved) expect(response.status).toBe(410);
    else if (isKnown) expect(response.status).toBe(200);
    else expect(response.status).not.toBe(410);
    if (response.status === 200) expect(promised, `animal ${request.reads}`).toBeDefined();
    if (response.status === 200 && request.method !== 'HEAD') expect(response.body).toBe(promised);
  }
}

function asCreated({ request, response }: Exchange, flight: number): Created[] {
  if (!request.creates || ![201, 409, 422].includes(response.status)) return [];
  const { caller, key, pet } = request.creates;
  const name = key === undefined ? undefined : `${caller} ${key}`;
  return [{ response, flight, pet, name }];
}
