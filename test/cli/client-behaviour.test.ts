import { expect, test } from 'vitest';
import { runInTerminal, startInTerminal } from '../helpers/context.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
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
    const error = { code: 'rate_limited', message: 'no', status: 429 };
    reply(response, 429, error, { 'Retry-After': '99999999' });
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
])('%j sends a request that gets 429 %i times', async (args, count) => {
  const { url, requests } = await scriptedServer((_, response, n) => {
    if (n > 1) return reply(response, 200, []);
    reply(response, 429, { code: 'rate_limited', message: 'no', status: 429 }, { 'Retry-After': '30' });
  });
  const { code } = await runInTerminal(args, { env: { PETS_BASE_URL: url, PETS_API_KEY: KEY } });
  expect([code, requests.length]).toEqual([count === 1 ? 5 : 0, count]);
});

test('an invalid link to the next page is an unexpected response', async () => {
  const { url } = await scriptedServer((_, response) =>
    reply(response, 200, [{ id: 1, name: 'Rex', categoryId: 1 }], { Link: '<http://[>; rel="next"' }),
  );
  const env = { PETS_BASE_URL: url, PETS_API_KEY: KEY };
  const { code, stderr } = await runInTerminal(['list', '--all'], { env });
  expect([code, stderr]).toEqual([7, expect.stringContaining('invalid link to the next page')]);
});
