import fastifyRateLimit, { type RateLimitPluginOptions } from '@fastify/rate-limit';
import { type Options, rateLimit } from 'express-rate-limit';
import fastify from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { startExpress } from '../helpers/express.ts';
import { freshMachine } from '../helpers/pets.ts';

// These tests run the command with services that limit requests with the libraries of other projects. Each service
// allows two requests in ten minutes.

type Service = { baseUrl: string; requests(): number };

async function withExpress(options: Partial<Options>): Promise<Service> {
  let count = 0;
  const host = await startExpress((app) => {
    app.use((_request, _response, next) => {
      count++;
      next();
    });
    app.use(rateLimit({ windowMs: 600_000, limit: 2, ...options }));
    app.get('/v1/pets', (_, response) => {
      response.json([]);
    });
  });
  return { baseUrl: `http://${host}/v1`, requests: () => count };
}

async function withFastify(options: RateLimitPluginOptions): Promise<Service> {
  let count = 0;
  const app = fastify();
  onTestFinished(() => app.close());
  app.addHook('onRequest', async () => {
    count++;
  });
  await app.register(fastifyRateLimit, { max: 2, timeWindow: '10 minutes', ...options });
  app.get('/v1/pets', () => []);
  const origin = await app.listen({ host: '127.0.0.1', port: 0 });
  return { baseUrl: `${origin}/v1`, requests: () => count };
}

const express = (standardHeaders: Options['standardHeaders']) => (more: Partial<Options>) =>
  withExpress({ standardHeaders, legacyHeaders: standardHeaders === false, ...more });

const variants: [string, limit: number | undefined, () => Promise<Service>, () => Promise<Service>][] = [
  ...([false, 'draft-8'] as const).map((headers): (typeof variants)[number] => [
    `express-rate-limit with ${headers || 'X-RateLimit headers'}`,
    headers === 'draft-8' ? undefined : 2,
    () => express(headers)({}),
    () =>
      express(headers)({
        handler: (_, response) => {
          response.removeHeader('Retry-After');
          response.status(429).json({ message: 'slow down' });
        },
      }),
  ]),
  [
    '@fastify/rate-limit',
    2,
    () => withFastify({}),
    () => withFastify({ addHeaders: { 'retry-after': false } }),
  ],
];

/**
 * Matches the time left in a window of ten minutes. On a slow machine, up to a minute of the window has passed. The time may
 * be a second too long, because services round the end of the window up to a whole second.
 */
const TEN_MINUTES = /\(in (10 min( 1 s)?|9 min \d+ s)\)/;

async function machineFor({ baseUrl }: Service) {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl, key: 'pets_k' });
  return machine;
}

test.each(variants)('%s: the last request of a window starts a cool-down', async (_name, limit, start) => {
  const service = await start();
  const machine = await machineFor(service);
  const checked = JSON.parse((await machine.pets(['profiles', '--check', '--json'])).stdout)[0].check;
  expect(checked).toMatchObject({ ok: true, remaining: 1, ...(limit && { limit }) });
  expect(checked.message).toMatch(TEN_MINUTES);
  expect((await machine.pets(['list'])).code).toBe(0);
  const { code, stderr } = await machine.pets(['list']);
  expect(stderr).toMatch(/no request is sent to .* until .*: the rate limit is used up/);
  expect(stderr).toMatch(TEN_MINUTES);
  expect([code, service.requests()]).toEqual([5, 2]);
});

test.each(variants)(
  '%s: a 429 without Retry-After shows the end of the window',
  async (_name, _limit, _, start) => {
    const service = await start();
    // Each command has its own state, so that it does not know of the earlier responses.
    for (const expected of [0, 0, 5]) {
      const machine = await machineFor(service);
      const { code, stderr } = await machine.pets(['list']);
      expect(code).toBe(expected);
      if (expected === 0) continue;
      expect(stderr).toMatch(/is rate-limited until/);
      expect(stderr).toMatch(TEN_MINUTES);
      expect(stderr).toMatch(/try again after this time, or wait with --max-wait \d{3}$/m);
    }
  },
);
