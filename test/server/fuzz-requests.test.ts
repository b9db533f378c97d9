import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plans } from '../../src/contract/api.ts';
import { parseJson } from '../../src/contract/json.ts';
import { petJson } from '../../src/contract/schemas.ts';
import { cases } from '../helpers/cases.ts';
import { type FuzzedRequest, requestOf, requestsWithOneOddPart } from '../helpers/fuzzed-requests.ts';
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

// Each random request on a random connection gets one response, and no animal is lost or added twice.
// test/store/contract/ tests limits, bans and idempotency keys with random calls.

const REQUESTS = cases(4_000, 'PETS_FUZZ_REQUESTS');
/** The first byte of an error body. The response to a parser error has a body even for HEAD. */
const BRACE = 0x7b;
const RUNS_AT_A_TIME = 20;
/** How much the heap may grow, whatever the number of requests. */
const MEGABYTES = 6;

const LIMITED = ['pets_limited', 'pets_limited_too'];
/** The API key of `walk`, which reads all pages, and of requests that are valid except for one unusual part. */
const UNLIMITED = 'pets_unlimited';

/** Requests that are sent one after the other on a connection, each in writes that end at the fractions `cuts`. */
type Flight = { requests: FuzzedRequest[]; cuts: number[] };

const flight: fc.Arbitrary<Flight> = fc.record({
  requests: fc.array(requestOf(LIMITED), { minLength: 1, maxLength: 5, size: 'max' }),
  cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3, size: 'max' }),
});
const story = fc.record({
  time: fc.constantFrom('2026-11-20T12:00:00Z', '2026-11-20T23:59:29Z', '2030-12-04T23:58:30Z'),
  perMinute: fc.constantFrom(4, 12, 1_000),
  faults: fc.constantFrom(undefined, { failRate: 0.1, seed: 1 }),
  /** Flights that are sent at the same time, after all responses to the previous ones and a pause in seconds. */
  waves: fc.array(
    fc.record({
      pause: fc.constantFrom(0, 0, 0, 1, 2, 60, 121, 86_400),
      flights: fc.array(flight, { minLength: 1, maxLength: 4, size: 'max' }),
    }),
    { minLength: 1, maxLength: 8, size: 'max' },
  ),
});
type Story = typeof story extends fc.Arbitrary<infer Value> ? Value : never;

test(`${REQUESTS} requests get one valid response each, and no animal is lost or added twice`, {
  timeout: REQUESTS * 20 + 60_000,
}, async () => {
  const statuses: number[] = [];
  let warm: number | undefined;
  while (statuses.length < REQUESTS) {
    await fc.assert(
      fc.asyncProperty(story, async (story) => void statuses.push(...(await play(story)))),
      { numRuns: RUNS_AT_A_TIME, timeout: 60_000 },
    );
    warm ??= heap();
  }
  expect(heap() - (warm ?? 0), 'heap growth in bytes').toBeLessThan(MEGABYTES * 1_000_000);
  // The requests must reach all of these statuses.
  if (REQUESTS >= 2_000) {
    const met = [200, 201, 204, 400, 401, 404, 405, 410, 415, 422, 429, 503];
    expect(statuses).toEqual(expect.arrayContaining(met));
  }
});

test('each odd part of a request gets its own response, and nothing else does', async () => {
  const service = await launch({ ...atLoopback, quotas: { [UNLIMITED]: plans.enterprise } });
  const pets: Pets = new Map();
  const requests = requestsWithOneOddPart(UNLIMITED, 300);
  while (requests.length > 0) {
    const flights = requests.splice(0, 20).map((each) => ({ requests: [each], cuts: [] }));
    await flyAll(service, pets, flights);
  }
  expect(service.errors, 'internal errors').toEqual([]);
  await service.listening.stop(0);
});

async function play({ time, perMinute, faults, waves }: Story): Promise<number[]> {
  const limited = Object.fromEntries(LIMITED.map((key) => [key, { perMinute, perDay: 100 * perMinute }]));
  const quotas = { ...limited, [UNLIMITED]: plans.enterprise };
  const ban = { after: 2, milliseconds: 120_000 };
  const service = await launch({ ...atLoopback, quotas, time, ban, faults });
  const pets: Pets = new Map();
  const statuses: number[] = [];
  try {
    for (const { pause, flights } of waves) {
      service.clock.advance(pause * 1_000);
      statuses.push(...(await flyAll(service, pets, flights, faults !== undefined)));
    }
    const inOrder = [...pets].sort(([one], [other]) => Number(one - other));
    expect(await walk(service.listening.port)).toBe(inOrder.map(([, text]) => text).join(','));
    expect(service.errors, 'internal errors').toEqual([]);
    return statuses;
  } finally {
    await service.listening.stop(0);
  }
}

type Exchange = { request: FuzzedRequest; response: RawResponse };

/** Every acknowledged animal, by its id. */
type Pets = Map<bigint, string>;

/** Sends flights at the same time, and checks their responses. Returns the statuses. */
async function flyAll(
  { listening, store }: Awaited<ReturnType<typeof launch>>,
  pets: Pets,
  flights: readonly Flight[],
  hasFaults = false,
): Promise<number[]> {
  const last = pets.size;
  const exchanges = (await Promise.all(flights.map((flight) => fly(listening.port, flight)))).flat();
  for (const { request, response } of exchanges) {
    try {
      expectSound(request, response, hasFaults);
    } catch (error) {
      throw new Error(`${response.status} to ${legible(request.bytes)}`, { cause: error });
    }
  }
  const created = exchanges.filter(({ request, response }) => request.creates && response.status === 201);
  const isReplay = ({ response }: Exchange) => response.headers['idempotency-replayed'] === 'true';
  for (const { request, response } of created.filter((each) => !isReplay(each))) {
    const id = BigInt((parseJson(response.body) as { id: number }).id);
    expect(pets.has(id), `id ${id} was given before`).toBe(false);
    if (request.creates) expect(response.body).toBe(petJson({ id, ...request.creates }));
    pets.set(id, response.body);
  }
  const ids = [...pets.keys()].slice(last).sort((a, b) => Number(a - b));
  expect(ids, 'ids after the last one, without a gap').toEqual(ids.map((_, i) => BigInt(last + i + 1)));
  // A repeated creation gets the first response. If it were another animal, it would be 422.
  for (const { request, response } of created.filter(isReplay)) {
    const { id } = parseJson(response.body) as { id: number };
    expect(response.body).toBe(pets.get(BigInt(id)));
    if (request.creates) expect(response.body).toBe(petJson({ id: BigInt(id), ...request.creates }));
  }
  expect(await store.size(), 'animals in the store').toBe(pets.size);
  return exchanges.map(({ response }) => response.status);
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
