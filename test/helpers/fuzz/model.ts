import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import { parseJson } from '../../../src/contract/json.ts';
import { operations } from '../../../src/contract/operations.ts';
import type { Quota } from '../../../src/contract/plans.ts';
import { petJson } from '../../../src/contract/schemas.ts';
import type { CreatePet } from '../../../src/store/store.ts';
import type { RawResponse } from '../raw-client.ts';
import type { FuzzedRequest } from './requests.ts';

export type Exchange = { request: FuzzedRequest; response: RawResponse };

type Account = {
  minute: number;
  day: number;
  usedOfMinute: number;
  usedOfDay: number;
  bannedUntil: number;
  refusals: number[];
};
type Creation = { pet: CreatePet['pet']; body: string; at: number };
type Created = {
  response: RawResponse;
  flight: number;
  pet: CreatePet['pet'];
  /** The caller and the idempotency key in one string; undefined without an idempotency key. */
  name: string | undefined;
};

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;

/**
 * Derives from the responses what the service must have done. Requests are sent in waves. The requests of a wave run
 * concurrently, so only the order within a connection is checked.
 */
export class Model {
  /** Every acknowledged animal, by its id. */
  readonly pets = new Map<bigint, string>();
  readonly #quotas: Readonly<Record<string, Quota>>;
  readonly #banAfter: number;
  readonly #accounts = new Map<string, Account>();
  readonly #creations = new Map<string, Creation>();

  constructor(quotas: Readonly<Record<string, Quota>>, banAfter: number) {
    this.#quotas = quotas;
    this.#banAfter = banAfter;
  }

  /** Checks the responses of a wave, grouped by connection, against all earlier waves. */
  accept(flights: readonly (readonly Exchange[])[], now: number): void {
    const exchanges = flights.flat();
    for (const [caller, quota] of Object.entries(this.#quotas)) {
      const counted = exchanges.filter(
        ({ request, response }) =>
          request.limitedBy === caller &&
          (request.counts ? response.status !== 503 : isRealRefusal(response)),
      );
      this.#acceptCounted(
        caller,
        quota,
        counted.map(({ response }) => response),
        now,
      );
    }
    const before = this.pets.size;
    this.#acceptCreated(flights, now);
    for (const exchange of exchanges) this.#acceptRead(exchange, before, now);
  }

  /** Checks that exactly the requests over the limit get 429, and that the rate-limit headers are correct. */
  #acceptCounted(caller: string, quota: Quota, responses: readonly RawResponse[], now: number): void {
    const account = this.#accountAt(caller, now);
    const left = Math.min(quota.perMinute - account.usedOfMinute, quota.perDay - account.usedOfDay);
    const passed = responses.filter(({ status }) => status !== 429);
    const expected = Math.min(responses.length, now < account.bannedUntil ? 0 : left);
    expect(passed.length, `responses to ${caller} within its limit`).toBe(expected);
    const reported = passed.map(({ headers }) => Number(headers['x-ratelimit-remaining']));
    expect(
      reported.sort((a, b) => b - a),
      `remaining requests reported to ${caller}`,
    ).toEqual(passed.map((_, i) => left - 1 - i));
    account.usedOfMinute += passed.length;
    account.usedOfDay += passed.length;
    const refused = responses.filter(({ status }) => status === 429);
    account.refusals.push(...refused.map(() => now));
    for (const { headers, body } of refused) {
      const retryAt = now + Number(headers['retry-after']) * SECOND;
      // A response to HEAD has no error code, but only a ban can last more than a minute and not end at midnight.
      const isBan = body === '' ? retryAt - now > MINUTE && retryAt % DAY > 0 : body.includes('"key_banned"');
      if (isBan) {
        const recent = account.refusals.filter((at) => now - at < MINUTE || at < account.bannedUntil);
        expect(recent.length, `rejected requests of ${caller} before its ban`).toBeGreaterThanOrEqual(
          this.#banAfter,
        );
        account.bannedUntil = Math.max(account.bannedUntil, retryAt);
      } else if (body !== '') expect(retryAt % MINUTE, 'the instant to retry at').toBe(0);
    }
  }

  #accountAt(caller: string, now: number): Account {
    const [minute, day] = [Math.floor(now / MINUTE), Math.floor(now / DAY)];
    const fresh = { minute, day, usedOfMinute: 0, usedOfDay: 0, bannedUntil: 0, refusals: [] };
    const account = this.#accounts.get(caller) ?? fresh;
    this.#accounts.set(caller, account);
    if (account.minute !== minute) Object.assign(account, { minute, usedOfMinute: 0 });
    if (account.day !== day) Object.assign(account, { day, usedOfDay: 0 });
    return account;
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

/** Whether a request with Prefer got 429 because of its limit, and not because it asked for 429. */
const isRealRefusal = ({ status, headers }: RawResponse): boolean =>
  status === 429 && headers['preference-applied'] === undefined;

function asCreated({ request, response }: Exchange, flight: number): Created[] {
  if (!request.creates || ![201, 409, 422].includes(response.status)) return [];
  const { caller, key, pet } = request.creates;
  const name = key === undefined ? undefined : `${caller} ${key}`;
  return [{ response, flight, pet, name }];
}
