import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plans } from '../../src/contract/api.ts';
import { cases } from '../helpers/cases.ts';
import { requestOf } from '../helpers/fuzzed-requests.ts';
import {
  AUTH,
  atLoopback,
  Connection,
  expectCommonHeaders,
  expectError,
  get,
  HOST,
  legible,
  parseResponses,
  post,
  sendRaw,
} from '../helpers/raw-client.ts';
import { KEY, launch } from '../helpers/service.ts';

// After random bytes, all responses are valid HTTP, the connection closes, and other clients are not affected.

const BYTES = cases(1_000, 'PETS_FUZZ_BYTES');
/** The inputs of a batch are sent concurrently, because many only end with a timeout. A busy machine must manage a batch. */
const INPUTS_OF_A_BATCH = 50;

const latin1 = (text: string) => Buffer.from(text, 'latin1');
/** Parts of requests, separated by a bar. */
const fragments =
  `\r\n|\n|\r|\0| |\t|:|\r\n\r\n|0\r\n\r\n|ffffffffffffffff\r\n|-1\r\n|${HOST}|${AUTH}|Host: evil.example\r\n` +
  '|Authorization: Bearer \xff\r\n| folded\r\n|X : y\r\n|Content-Length: 0\r\n|Content-Length: 99999999999999999999\r\n' +
  '|Content-Length: -1\r\n|Transfer-Encoding: chunked\r\n|Transfer-Encoding: gzip, chunked\r\n|Connection: keep-alive\r\n' +
  '|Upgrade: h2c\r\nConnection: Upgrade\r\n|CONNECT a:1 HTTP/1.1\r\n|PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n|GET |POST ' +
  '| HTTP/1.1\r\n| HTTP/1.0\r\n| HTTP/0.9\r\n|/v1/pets|/%|%00|\u0016\u0003\u0001';
const piece = fc.oneof(
  { arbitrary: requestOf([KEY]).map(({ bytes }) => bytes), weight: 6 },
  { arbitrary: fc.constant(post(' '.repeat(66_000))), weight: 1 },
  { arbitrary: fc.constantFrom(...fragments.split('|')).map(latin1), weight: 2 },
  { arbitrary: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)), weight: 1 },
  {
    arbitrary: fc
      .tuple(
        fc.constantFrom('x', '\0', '\n', '9', '[', 'X: y\r\n', 'GET / '),
        fc.integer({ min: 1, max: 20_000 }),
      )
      .map(([text, length]) => latin1(text.repeat(length).slice(0, length))),
    weight: 1,
  },
);

/** A position as a fraction of the bytes, from 0 to 1. */
const share = fc.double({ min: 0, max: 1, noNaN: true });
/** Changes bytes: flips a bit, inserts a piece, or removes a part, perhaps up to the end. */
type Mutation = (bytes: Buffer) => Buffer;
const at = (bytes: Buffer, where: number) => Math.floor(where * bytes.length);
const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.tuple(share, fc.nat(7)).map<Mutation>(([where, bit]) => (bytes) => {
    const i = at(bytes, where);
    return Buffer.from(bytes.map((byte, index) => (index === i ? byte ^ (1 << bit) : byte)));
  }),
  fc.tuple(share, piece).map<Mutation>(([where, more]) => (bytes) => {
    const i = at(bytes, where);
    return Buffer.concat([bytes.subarray(0, i), more, bytes.subarray(i)]);
  }),
  fc.tuple(share, fc.oneof(share, fc.constant(1))).map<Mutation>(([one, other]) => (bytes) => {
    const [from, to] = [at(bytes, Math.min(one, other)), at(bytes, Math.max(one, other))];
    return Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]);
  }),
);

/** The bytes, where they are split into writes, and how the client ends the connection. */
type Input = { bytes: Buffer; cuts: readonly number[]; ending: 'halfClose' | 'wait' | 'reset' };
const input: fc.Arbitrary<Input> = fc
  .record({
    pieces: fc.array(piece, { minLength: 1, maxLength: 5, size: 'max' }),
    mutations: fc.array(mutation, { maxLength: 4, size: 'max' }),
    cuts: fc.array(share, { maxLength: 4, size: 'max' }),
    ending: fc.oneof(
      { arbitrary: fc.constant('halfClose' as const), weight: 4 },
      fc.constantFrom('reset' as const, 'wait' as const),
    ),
  })
  .map(({ pieces, mutations, ...rest }) => {
    const bytes = mutations.reduce<Buffer>((before, mutate) => mutate(before), Buffer.concat(pieces));
    return Object.defineProperty({ bytes, ...rest }, fc.toStringMethod, {
      value: () => `${rest.ending} at ${rest.cuts} of ${legible(bytes)}`,
    });
  });

test(`${BYTES} byte sequences get valid responses or none, and leave no connection open`, {
  timeout: BYTES * 50 + 120_000,
}, async () => {
  const statuses = new Set<number>();
  const quotas = { [KEY]: plans.enterprise };
  const service = await launch({ ...atLoopback, quotas, limits: shortLimits });
  const { port, stop } = service.listening;
  // A test that ran before in this process may have left connections that close meanwhile.
  const before = sockets();
  const batches = fc.array(input, { minLength: 1, maxLength: INPUTS_OF_A_BATCH, size: 'max' });
  await fc.assert(
    fc.asyncProperty(batches, async (batch) => {
      await Promise.all(batch.map((each) => play(port, each, statuses)));
      expect((await sendRaw(port, get('/v1/pets?limit=1')))[0]?.status, 'of a good request').toBe(200);
      expect(service.errors, 'internal errors').toEqual([]);
      await expect.poll(sockets, { interval: 2 }).toBeLessThanOrEqual(before);
    }),
    { numRuns: Math.ceil((2 * BYTES) / INPUTS_OF_A_BATCH), timeout: 60_000 },
  );
  await stop(0);
  // The inputs must reach all of these responses.
  if (BYTES >= 1_000)
    expect([...statuses]).toEqual(expect.arrayContaining([200, 201, 204, 400, 401, 404, 405, 413]));
});

// These limits are shorter than the real ones, for a fast test. The keep-alive timeout is off, because Node would add a
// second to any other value.
const shortLimits = {
  ...{ headersTimeout: 200, requestTimeout: 250, keepAliveTimeout: 0 },
  ...{ idleTimeout: 300, connectionsCheckingInterval: 10 },
};

async function play(port: number, { bytes, cuts, ending }: Input, statuses: Set<number>): Promise<void> {
  const line = new Connection(port);
  await line.send(bytes, cuts);
  if (ending === 'reset') return void line.socket.resetAndDestroy();
  if (ending === 'halfClose') line.socket.end();
  const responses = parseResponses(await line.rest()).filter(({ status }) => status >= 200);
  // The service sends at most one response per end of headers, and one error.
  const ends = bytes.toString('latin1').match(/\n(?=\r?\n)/g)?.length ?? 0;
  expect(responses.length, 'responses').toBeLessThanOrEqual(ends + 1);
  for (const response of responses) {
    statuses.add(response.status);
    expect(response.status).toBeLessThan(500);
    expectCommonHeaders(response.headers);
    if (response.status >= 400 && response.body !== '') expectError(response);
  }
  for (const { headers } of responses.slice(0, -1))
    expect(headers['connection'], 'of a response before the last').not.toBe('close');
}

const sockets = () => process.getActiveResourcesInfo().filter((name) => name.startsWith('TCP')).length;
