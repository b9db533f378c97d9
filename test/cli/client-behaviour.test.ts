import { expect, test } from 'vitest';
import { manualClock } from '../helpers/clock.ts';
import { runInTerminal, startInTerminal } from '../helpers/context.ts';
import { freshMachine } from '../helpers/pets.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const KEY = 'pets_profiles_key';
const profile = (baseUrl: string) => JSON.stringify({ baseUrl, key: KEY });

test('Ctrl-C ends profiles --check before the next service is requested', async () => {
  const { url, requests } = await scriptedServer(() => running.raise('SIGINT'));
  const files = { 'prod.json': profile(url), 'staging.json': profile(url) };
  const running = await startInTerminal(['profiles', '--check'], { files });
  expect(await running.ended).toBe(130);
  expect([requests.length, running.stdout()]).toEqual([1, '']);
});

test('profiles --check includes the key of the environment, and a success ends its cool-down', async () => {
  let isRateLimited = true;
  const { url, requests } = await scriptedServer((_, response) => {
    if (!isRateLimited) return reply(response, 200, []);
    replyError(response, 429, 'rate_limited', { 'Retry-After': '99999999' });
  });
  const env = { PETS_BASE_URL: url, PETS_API_KEY: KEY, XDG_STATE_HOME: await temporaryDirectory() };
  expect((await runInTerminal(['list'], { env })).code).toBe(5);
  isRateLimited = false;
  expect((await runInTerminal(['list'], { env })).stderr).toContain('pets profiles --check');
  expect(requests).toHaveLength(1);
  const checked = await runInTerminal(['profiles', '--check', '--json'], { env });
  expect(JSON.parse(checked.stdout).at(-1)).toMatchObject({ profile: 'environment', check: { ok: true } });
  expect((await runInTerminal(['list'], { env })).code).toBe(0);
});

test.each([
  [['list', '--all', '--no-retry'], 1],
  [['list', '--no-retry'], 1],
  [['list', '--all'], 2],
  [['list', '--max-wait', '10'], 1],
  [['list', '--max-wait', '10', '--all'], 1],
])('%j sends a request that gets 429 %i times', async (args, count) => {
  const { url, requests } = await scriptedServer((_, response, n) => {
    if (n > 1) return reply(response, 200, []);
    replyError(response, 429, 'rate_limited', { 'Retry-After': '30' });
  });
  const { code } = await runInTerminal(args, { env: { PETS_BASE_URL: url, PETS_API_KEY: KEY } });
  expect([code, requests.length]).toEqual([count === 1 ? 5 : 0, count]);
});

test('during a rate limit, profiles --check sends one request a minute, so that checking cannot cause a ban', async () => {
  const { url, requests } = await scriptedServer((_, response) =>
    replyError(response, 429, 'rate_limited', { 'Retry-After': '3600' }),
  );
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: url, key: KEY });
  const clock = manualClock();
  for (let seconds = 0; seconds < 60; seconds += 10) {
    const { code, stdout } = await machine.pets(['profiles', '--check', '--json'], { clock });
    const [{ check }] = JSON.parse(stdout);
    expect([code, check.ok, check.code, check.remaining]).toEqual([0, false, 'rate_limited', 0]);
    expect(Date.parse(check.reset)).toBeGreaterThan(clock.now());
    clock.advance(10_000);
  }
  // The first request started the cool-down. One more request may ignore the cool-down.
  expect(requests).toHaveLength(2);
});

test('--idempotency-key works with a service that this machine does not know: a GET first shows that it honours keys', async () => {
  const { url, requests } = await scriptedServer((request, response) =>
    request.method === 'GET'
      ? reply(response, 200, [], { 'Idempotency-Supported': 'true' })
      : request.socket.destroy(),
  );
  const add = ['add', 'Rex', '--category', '3', '--idempotency-key', 'job-7', '--no-retry', '--json'];
  const { code, stderr } = await runInTerminal(add, { env: { PETS_BASE_URL: url, PETS_API_KEY: KEY } });
  const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
  expect([code, error.code, error.idempotencyKey]).toEqual([6, 'outcome_unknown', 'job-7']);
  expect(requests.map(({ method }) => method)).toEqual(['GET', 'POST']);
});
