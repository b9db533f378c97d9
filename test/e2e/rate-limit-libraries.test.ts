import fastifyRateLimit from '@fastify/rate-limit';
import { type Options, rateLimit } from 'express-rate-limit';
import fastify from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { startExpress } from '../helpers/express.ts';
import { freshMachine } from '../helpers/pets.ts';

// These tests run the command with services that limit requests with the libraries of other projects. Each service allows
// two requests in ten minutes, and sends no Retry-After.

async function withExpress(standardHeaders: Options['standardHeaders']) {
  let count = 0;
  const host = await startExpress((app) => {
    app.use((_request, _response, next) => {
      count++;
      next();
    });
    const legacyHeaders = standardHeaders === false;
    const handler: Options['handler'] = (_, response) => {
      response.removeHeader('Retry-After');
      response.status(429).json({ message: 'slow down' });
    };
    app.use(rateLimit({ windowMs: 600_000, limit: 2, standardHeaders, legacyHeaders, handler }));
    app.get('/v1/pets', (_, response) => {
      response.json([]);
    });
  });
  return { baseUrl: `http://${host}/v1`, requests: () => count };
}

async function withFastify() {
  let count = 0;
  const app = fastify();
  onTestFinished(() => app.close());
  app.addHook('onRequest', async () => {
    count++;
  });
  const addHeaders = { 'retry-after': false };
  await app.register(fastifyRateLimit, { max: 2, timeWindow: '10 minutes', addHeaders });
  app.get('/v1/pets', () => []);
  const origin = await app.listen({ host: '127.0.0.1', port: 0 });
  return { baseUrl: `${origin}/v1`, requests: () => count };
}

/**
 * Matches the time left in a window of ten minutes. On a slow machine, up to a minute of the window has passed. The time may
 * be a second too long, because services round the end of the window up to a whole second.
 */
const TEN_MINUTES = /\(in (10 min( 1 s)?|9 min \d+ s)\)/;

test.each([
  ['express-rate-limit with X-RateLimit headers', { limit: 2 }, () => withExpress(false)],
  ['express-rate-limit with draft-8', {}, () => withExpress('draft-8')],
  ['@fastify/rate-limit', { limit: 2 }, withFastify],
] as const)(
  '%s: the last request of a window starts a cool-down, and a 429 shows its end',
  async (_, limit, start) => {
    const { baseUrl, requests } = await start();
    const [machine, other] = [await freshMachine(), await freshMachine()];
    for (const each of [machine, other]) await each.saveProfile('prod', { baseUrl, key: 'pets_k' });
    const checked = JSON.parse((await machine.pets(['profiles', '--check', '--json'])).stdout)[0].check;
    expect(checked).toMatchObject({ ok: true, remaining: 1, ...limit });
    expect(checked.message).toMatch(TEN_MINUTES);
    expect((await machine.pets(['list'])).code).toBe(0);
    const deferred = await machine.pets(['list']);
    expect(deferred.stderr).toMatch(/no request is sent to .* until .*: the rate limit is used up/);
    expect(deferred.stderr).toMatch(TEN_MINUTES);
    expect([deferred.code, requests()]).toEqual([5, 2]);
    // Another machine does not know of the earlier responses.
    const refused = await other.pets(['list']);
    expect([refused.code, requests()]).toEqual([5, 3]);
    expect(refused.stderr).toMatch(/is rate-limited until/);
    expect(refused.stderr).toMatch(TEN_MINUTES);
    expect(refused.stderr).toMatch(/try again after this time, or wait with --max-wait \d{3}$/m);
  },
);
