import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseJson } from '../../src/contract/json.ts';
import { operations } from '../../src/contract/operations.ts';
import { plans } from '../../src/contract/plans.ts';
import { petJson } from '../../src/contract/schemas.ts';
import type { CreateRequest } from '../../src/store/store.ts';
import { cases } from '../helpers/cases.ts';
import {
  type FuzzedRequest,
  replayed,
  requestOf,
  requestsWithOneOddPart,
} from '../helpers/fuzzed-requests.ts';
import { heap } from '../helpers/heap.ts';
import { expectDocumented } from '../helpers/openapi.ts';
import {
  atLoopback,
  Connection,
  expectCommonHeaders,
  expectError,
  legible,
  type RawResponse,
} from '../helpers/raw-client.ts';
import { launch } from '../helpers/service.ts';

// Each random request on a random connection gets one response, and the responses are consistent with each other.

const REQUESTS = cases(4_000, 'PETS_FUZZ_REQUESTS');
/** The first byte of an error body. The response to a parser error has a body even for HEAD. */
const BRACE = 0x7b;
const RUNS_AT_A_TIME = 20;
/** How much the heap may grow, whatever the number of requests. */
const MEGABYTES = 6;

const LIMITED = ['pets_limited', 'pets_limited_too'];
/** The API key of `walk`, which reads all pages, and of requests that are valid except for one unusual part. */
const UNLIMITED = 'pets_unlimited';
const ban = { after: 2, milliseconds: 120_000 };

/** Requests that are sent one after the other on a connection, each in writes that end at the fractions `cuts`. */
type Flight = { requests: FuzzedRequest[]; cuts: number[] };

const flight: fc.Arbitrary<Flight> = fc.record({
  requests: fc.array(requestOf(LIMITED), { minLength: 1, maxLength: 5, size: 'max' }),
  cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3, size: 'max' }),
});
const SECONDS = [0, 0, 0, 1, 2, 2, 30, 60, 60, 121, 3_600, 86_399, 86_400];
const story = fc.record({
  time: fc.constantFrom('2026-11-20T12:00:00Z', '2026-11-20T23:59:29Z', '2030-12-04T23:58:30Z'),
  quota: fc.constantFrom(
    { perMinute: 1_000, perDay: 100_000 },
    { perMinute: 12, perDay: 100 },
    { perMinute: 4, perDay: 10 },
  ),
  faults: fc.option(
    fc.record({
      failRate: fc.constant(0.1),
      seed: fc.nat(),
      rules: fc.array(
        fc.record({
          match: fc.record({ method: fc.constantFrom('GET', 'POST') }),
          answer: fc.constant(503),
          times: fc.integer({ min: 1, max: 3 }),
          retryAfter: fc.option(fc.constant(1), { nil: undefined }),
        }),
        { maxLength: 2 },
      ),
    }),
    { nil: undefined },
  ),
  /** Each wave starts after all responses to the previous wave. */
  waves: fc.array(
    fc.record({
      pause: fc.constantFrom(...SECONDS),
      flights: fc.array(flight, { minLength: 1, maxLength: 4, size: 'max' }),
    }),
    { minLength: 1, maxLength: 8, size: 'max' },
  ),
});
type Story = typeof story extends fc.Arbitrary<infer Value> ? Value : never;

test(`${REQUESTS} requests get one valid response each, and no animal is lost or added twice`, {
  timeout: REQUESTS * 20 + 60_000,
}, async () => {
  const figures = { requests: 0, statuses: new Set<number>() };
  let warm: number | undefined;
  while (figures.requests < REQUESTS) {
    await fc.assert(
      fc.asyncProperty(story, (story) => play(story, figures)),
      { numRuns: RUNS_AT_A_TIME, timeout: 60_000, ...replayed() },
    );
    warm ??= heap();
  }
  expect(heap() - (warm ?? 0), 'heap growth in bytes').toBeLessThan(MEGABYTES * 1_000_000);
  // The requests must reach all of these statuses.
  if (REQUESTS >= 2_000) {
    const met = [200, 201, 204, 400, 401, 404, 405, 410, 413, 415, 417, 421, 422, 429, 431, 503];
    expect([...figures.statuses]).toEqual(expect.arrayContaining(met));
  }
});

test('each odd part of a request gets its own response, and nothing else does', async () => {
  const service = await launch({ ...atLoopback, quotas: { [UNLIMITED]: plans.enterprise }, ban });
  const model = new Model();
  const requests = requestsWithOneOddPart(UNLIMITED, 300);
  while (requests.length > 0) {
    const flights = requests.splice(0, 20).map((each) => ({ requests: [each], cuts: [] }));
    await flyAll(service, model, flights);
  }
  expect(service.errors, 'internal errors').toEqual([]);
  await service.listening.stop(0);
});

async function play(
  { time, quota, faults, waves }: Story,
  figures: { requests: number; statuses: Set<number> },
) {
  const limited = Object.fromEntries(LIMITED.map((key) => [key, quota]));
  const quotas = { ...limited, [UNLIMITED]: plans.enterprise };
  const service = await launch({ ...atLoopback, quotas, time, ban, faults });
  const model = new Model();
  try {
    for (const { pause, flights } of waves) {
      service.clock.advance(pause * 1_000);
      for (const { status } of await flyAll(service, model, flights, faults !== undefined)) {
        figures.requests++;
        figures.statuses.add(status);
      }
    }
    expect(await walk(service.listening.port)).toBe(
      [...model.pets.keys()]
        .sort((a, b) => Number(a - b))
        .map((id) => model.pets.get(id))
        .join(','),
    );
    expect(service.errors, 'internal errors').toEqual([]);
  } finally {
    await service.listening.stop(0);
  }
}

/** Sends flights at the same time, and checks the responses alone and against all earlier ones. */
async function flyAll(
  { listening, store, clock }: Awaited<ReturnType<typeof launch>>,
  model: Model,
  flights: readonly Flight[],
  hasFaults = false,
): Promise<RawResponse[]> {
  const exchanges = await Promise.all(flights.map((flight) => fly(listening.port, flight)));
  for (const { request, response } of exchanges.flat()) {
    try {
      expectSound(request, response, hasFaults);
    } catch (error) {
      throw new Error(`${response.status} to ${legible(request.bytes)}`, { cause: error });
    }
  }
  model.accept(exchanges, clock.now());
  expect(await store.size(), 'animals in the store').toBe(model.pets.size);
  return exchanges.flat().map(({ response }) => response);
}

/** Sends the requests of a flight, and receives their responses, up to the first with `Connection: close`. */
async function fly(port: number, { requests, cuts }: Flight): Promise<Exchange[]> {
  const line = new Connection(port);
  const exchanges: Exchange[] = [];
  for (const request of requests) {
    // If the service may close the connection, write once. Later data may cause a reset before the client has read all.
    await line.send(request.bytes, request.mayEnd ? [] : cuts);
    const response = await line.receive((next) => request.method === 'HEAD' && next[0] !== BRACE);
    if (!response) throw new Error(`no response to ${legible(request.bytes)}`);
    exchanges.push({ request, response });
    if (response.headers['connection'] !== 'close') continue;
    if (!request.mayEnd) throw new Error(`the connection closed after ${legible(request.bytes)}`);
    break;
  }
  await expectEnd(line);
  return exchanges;
}

/** Checks what a single response shows, without regard to earlier responses. */
function expectSound(request: FuzzedRequest, response: RawResponse, hasFaults: boolean): void {
  const { method, path, operation } = request;
  const { status, headers, body } = response;
  const always = request.limitedBy ? [429, ...(hasFaults ? [503] : [])] : [];
  expect([...request.statuses, ...always]).toContain(status);
  expectCommonHeaders(headers);
  if (status >= 400 && method !== 'HEAD') expectError(response);
  if (method === 'HEAD' && !request.mayEnd) expect(body).toBe('');
  if (status === 405) expect(headers['allow']).toMatch(/^GET, .*OPTIONS$/);
  if (!request.limitedBy && method !== 'OPTIONS') expect(headers['idempotency-supported']).toBeUndefined();
  if (status === 503 && method !== 'HEAD') expect(body).toContain('"injected_fault"');
  // The response to a parser error has a body even for HEAD.
  const judged = method === 'HEAD' && body !== '' ? 'GET' : method;
  if (operation) expectDocumented(judged, path, { status, headers: new Headers(headers), text: body });
}

async function expectEnd(line: Connection): Promise<void> {
  line.socket.end();
  expect(String(await line.rest()), 'after the last response').toBe('');
}

/** Reads all pages of animals, and returns their text. */
async function walk(port: number): Promise<string> {
  const line = new Connection(port);
  const pages: string[] = [];
  for (let target: string | undefined = '/v1/pets?limit=100'; target !== undefined; ) {
    const request = `GET ${target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${UNLIMITED}\r\n\r\n`;
    const { status, body, headers } = await line.ask(request);
    if (status === 503) continue;
    expect(status, 'the status of a page').toBe(200);
    pages.push(body.slice(1, -1));
    target = /<([^>]+)>; rel="next"/.exec(headers['link'] ?? '')?.[1];
  }
  await expectEnd(line);
  return pages.join(',');
}

type Exchange = { request: FuzzedRequest; response: RawResponse };

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
class Model {
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

  /** Checks that a new animal is the one that was sent, with a new id and an idempotency key unused for 24 hours. */
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
