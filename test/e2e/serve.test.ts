import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, type Machine, type ProgramOptions, serve } from '../helpers/pets.ts';

// What the operator of `pets serve` sees and decides: keys, the token, notices, and the log.

const KEY = 'my-own-key-0123456789';
const TOKEN = 'my-token/of+20=characters';

// A connection that stays open would delay the end of a service by 100 ms.
const bearer = (credential: string) => ({
  headers: { Authorization: `Bearer ${credential}`, Connection: 'close' },
});

const statusOf = async ({ url }: { url: string }, key: string): Promise<number> =>
  (await fetch(`${url}/pets`, bearer(key))).status;

const notices = (stderr: string) =>
  stderr
    .split('\n')
    .filter((line) => line.startsWith('{"notice"'))
    .map((line) => JSON.parse(line).notice as string);

/** A machine, and a path for a store. Each call of `start` starts the service with this store. */
async function machineWithStore() {
  const machine = await freshMachine();
  const store = join(machine.home, 'store');
  const data = ['--data', store];
  const start = (...args: string[]) => serve(machine, [...data, ...args]);
  const startAndStop = async (...args: string[]) => {
    const service = await start(...args);
    await service.end('SIGTERM');
    return service;
  };
  const list = () => machine.pets(['--profile', 'local', 'list']);
  const keys = (...args: string[]) => machine.pets(['keys', ...args, ...data]);
  return { machine, store, data, start, startAndStop, list, keys };
}

/** Starts `pets serve` without --json, stops it, and returns what it has printed. */
async function printedBy(machine: Machine, args: readonly string[], options?: ProgramOptions) {
  const program = machine.startProgram(['serve', '--port', '0', ...args], { columns: 100, ...options });
  await expect.poll(program.stdout).toContain('API described');
  program.raise('SIGTERM');
  expect(await program.ended).toBe(0);
  return program.stdout();
}

describe('the key dev', () => {
  test('is the same after a restart', async () => {
    const { start, startAndStop } = await machineWithStore();
    const first = await startAndStop();
    const second = await start();
    expect([second.key, await statusOf(second, first.key)]).toEqual([first.key, 200]);
  });

  test('is created only in a store without keys', async () => {
    const { start, startAndStop, keys } = await machineWithStore();
    const first = await startAndStop();
    await keys('revoke', 'dev');
    const second = await startAndStop();
    expect(second.key).not.toBe(first.key);
    await keys('revoke', 'dev');
    await keys('add', 'till', '--plan', 'free');
    const third = await start();
    expect([third.key, await statusOf(third, first.key), await statusOf(third, second.key)]).toEqual([
      undefined,
      401,
      401,
    ]);
  });

  test('if revoked, is replaced by a key of `pets keys add | pets login`, while the server runs and after a restart', async () => {
    const { machine, start, list, keys } = await machineWithStore();
    const service = await start();
    await keys('revoke', 'dev');
    await expect.poll(() => statusOf(service, service.key)).toBe(401);
    const hint = 'or create one while it runs: pets keys add laptop | pets login --profile local';
    expect(await list()).toMatchObject({ code: 4, stderr: expect.stringContaining(hint) });
    const { stdout } = await keys('add', 'mine', '--plan', 'free');
    const { code } = await machine.pets(['login', '--profile', 'local'], { stdin: stdout });
    expect(code).toBe(0);
    await expect.poll(async () => (await list()).code).toBe(0);
    await service.end('SIGTERM');
    expect(await start()).toMatchObject({ key: stdout.trim(), plan: 'free' });
  });
});

describe('a fixed key', () => {
  test('is read from PETS_SERVE_KEY or from the file of --key-file, which comes first; it is neither stored nor printed', async () => {
    const { machine, store, data, list } = await machineWithStore();
    const file = await machine.file('key', `${KEY}-file\n`);
    for (const [args, env, key] of [
      [[], { PETS_SERVE_KEY: `${KEY}\n`, PETS_SERVE_TOKEN: TOKEN }, KEY],
      [['--key-file', file], { PETS_SERVE_KEY: KEY, PETS_SERVE_TOKEN: TOKEN }, `${KEY}-file`],
    ] as const) {
      const service = await serve(machine, [...data, '--plan', 'free', ...args], { env });
      const response = await fetch(`${service.url}/pets`, bearer(key));
      expect([response.status, response.headers.get('x-ratelimit-limit')]).toEqual([200, '60']);
      expect((await list()).code).toBe(0);
      expect(service).toMatchObject({ plan: 'free' });
      await service.end('SIGTERM');
      const printed = await printedBy(machine, [...data, '--no-profile', ...args], { env });
      expect(printed).toContain(`API key from ${args.length > 0 ? file : 'PETS_SERVE_KEY'} (plan pro)`);
      expect(printed).toMatch(/tools: curl .* Bearer \$PETS_SERVE_TOKEN" http:.*\/requests$/m);
      expect(printed + service.stdout() + service.stderr()).not.toMatch(/my-own|my-token|try:/);
    }
    expect(await readdir(store)).not.toContain('keys');
    expect(await readFile(join(store, 'journal.ndjson'), 'utf8')).not.toContain(KEY);
  });

  test('and a chosen token are variables of the command after --, and are not printed', async () => {
    const script = 'console.log(process.env.PETS_API_KEY, process.env.PETS_SERVE_TOKEN)';
    const args = ['serve', '--ephemeral', '--json', '--', process.execPath, '-e', script];
    const env = { PETS_SERVE_KEY: KEY, PETS_SERVE_TOKEN: TOKEN };
    const ran = await (await freshMachine()).command(args, { env });
    expect(ran).toMatchObject({ code: 0, stdout: `${KEY} ${TOKEN}\n` });
    const { event, plan, ...others } = JSON.parse(ran.stderr.split('\n')[0] ?? '');
    expect([event, plan, others.key, others.token]).toEqual(['listening', 'pro', undefined, undefined]);
    expect(ran.stderr).not.toMatch(/my-own|my-token/);
  });

  const key = (PETS_SERVE_KEY: string) => ({ PETS_SERVE_KEY });
  const token = (PETS_SERVE_TOKEN: string) => ({ PETS_SERVE_TOKEN });
  const REFUSED = ' cannot be used\n  → use at least 20 visible ASCII characters without spaces';

  test.each<[string, Record<string, string>, string[], number, string]>([
    ['a key of 19 characters', key('nineteen-characters'), [], 2, `PETS_SERVE_KEY${REFUSED}`],
    ['an address that cannot be found', {}, ['--host', 'a..b'], 1, '127.0.0.1\n'],
    ['an empty key', key(''), [], 2, REFUSED],
    ['a key with a space', key('a secret of 20 characters'), [], 2, REFUSED],
    [
      'a file that does not exist',
      {},
      ['--key-file', 'none'],
      1,
      'cannot read none: no such file or directory',
    ],
    ['a directory', {}, ['--key-file', '/'], 1, 'cannot read /'],
    ['a token of 19 characters', token('nineteen-characters'), [], 2, `PETS_SERVE_TOKEN${REFUSED}`],
    ['a key of 20 characters', key('twenty-characters-20'), [], 0, ''],
  ])(
    '%s: %o with %j ends with %i, and an error creates nothing',
    async (_about, env, args, code, message) => {
      const machine = await freshMachine();
      const data = join(machine.home, 'store');
      const line = ['serve', '--no-profile', '--data', data, '--port', '0', ...args, '--', 'true'];
      const ran = await machine.pets(line, { env });
      expect(ran).toMatchObject({ code, stderr: expect.stringContaining(message) });
      expect(ran.stderr).not.toMatch(/a secret|nineteen|twenty-characters/);
      if (code !== 0) await expect(readdir(data)).rejects.toThrow('ENOENT');
    },
  );
});

const noticesOf = async (machine: Machine, args: readonly string[]): Promise<string[]> => {
  const service = await serve(machine, args);
  await service.end('SIGTERM');
  return notices(service.stderr());
};

const NO_PAGE =
  'other machines may reach this server, so it has no page and no other developer tools; to have them: --page';
const PLAIN =
  'other machines may reach this server, and clients send API keys to it unencrypted; use a reverse proxy with TLS, and set --public-url to its https URL';
const tls = ['--public-url', 'https://shop.test/v1'];
const everywhere = ['--host', '0.0.0.0'];

test.each([
  [['--host', '127.0.0.1'], []],
  [everywhere, [NO_PAGE, PLAIN]],
  [[...everywhere, '--no-page'], [PLAIN]],
  [[...everywhere, ...tls], [NO_PAGE]],
  [[...everywhere, ...tls, '--page'], []],
  [tls, [NO_PAGE]],
  [[...tls, '--no-page'], []],
])('a server with %j warns about who can reach it: %j', async (args, expected) => {
  const machine = await freshMachine();
  const service = await serve(machine, ['--ephemeral', ...args]);
  expect(service.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
  expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
  await service.end('SIGTERM');
  expect(notices(service.stderr())).toEqual(expected);
});

test('a profile local of another service and the store stay; --quiet hides the notices about it, but not about a problem', async () => {
  const { machine, store, data } = await machineWithStore();
  const other = { baseUrl: 'https://shop.test/v1', key: 'key-of-another-machine' };
  await machine.saveProfile('local', other);
  const args = [...data, '--allow-host', 'shop.test', '--seed'];
  await noticesOf(machine, args);
  const journal = () => readFile(join(store, 'journal.ndjson'), 'utf8');
  const before = await journal();
  expect(await noticesOf(machine, [...args, '--plan', 'free'])).toEqual([
    'the store is not empty, so --seed was ignored; for another store: --ephemeral, or --data <directory>',
    NO_PAGE,
    expect.stringContaining('--plan free was ignored'),
    'profile local was not changed, because it belongs to another service: https://shop.test/v1',
  ]);
  expect(await journal()).toBe(before);
  expect(JSON.parse(await readFile(join(machine.configDirectory, 'local.json'), 'utf8'))).toEqual(other);
  expect(await noticesOf(machine, [...args, '--plan', 'free', '--quiet'])).toEqual([]);
  const path = join(store, 'keys', 'shop.json');
  await writeFile(path, '{"half":');
  expect(await noticesOf(machine, [...args, '--quiet'])).toEqual([
    `${path} is damaged: it is not valid JSON; correct the file or its name; or revoke the key shop, then create a new one`,
  ]);
});

test('profile local stays with a service that runs, and moves to the next one after its end', async () => {
  const machine = await freshMachine();
  const profile = async () =>
    JSON.parse(await readFile(join(machine.configDirectory, 'local.json'), 'utf8')).baseUrl;
  const first = await serve(machine, ['--ephemeral']);
  const notice = `profile local was not changed, because it belongs to another service: ${first.url}`;
  expect(await noticesOf(machine, ['--ephemeral'])).toEqual([notice]);
  expect(await profile()).toBe(first.url);
  await first.end('SIGTERM');
  expect(await readFile(join(machine.configDirectory, 'local.json'), 'utf8')).not.toContain('key');
  const second = await serve(machine, ['--ephemeral']);
  expect(await profile()).toBe(second.url);
});

test('/readyz is 503 if the API keys cannot be read', async () => {
  const { store, start } = await machineWithStore();
  const service = await start();
  const readyz = async () => (await fetch(new URL('/readyz', service.url))).status;
  expect(await readyz()).toBe(200);
  await rename(join(store, 'keys'), join(store, 'kept'));
  await writeFile(join(store, 'keys'), '');
  expect(await readyz()).toBe(503);
});

test('--log prints a short line for each request, and the reason of an error below it', async () => {
  const script = `
    const [url, key] = [process.env.PETS_BASE_URL + '/pets', process.env.PETS_API_KEY];
    const headers = { Authorization: 'Bearer ' + key };
    await fetch(url + '?limit=5&status=available', { headers });
    await fetch(url + '?limit=500', { headers });
    await fetch(url, { method: 'OPTIONS', headers: { Origin: 'http://localhost:5173', 'Access-Control-Request-Method': 'GET' } });`;
  const args = ['serve', '--ephemeral', '--log', '--no-page', '--', process.execPath];
  const { stderr } = await (await freshMachine()).pets([...args, '--input-type=module', '-e', script]);
  const time = '\\d\\d:\\d\\d:\\d\\d';
  expect(stderr).toMatch(
    new RegExp(
      `\n${time} GET /v1/pets\\?limit=5&status=available 200 \\d+ ms\n` +
        `${time} GET /v1/pets\\?limit=500 400 \\d+ ms\n  limit must be an integer from 1 to 100\n` +
        `${time} OPTIONS /v1/pets 204 \\d+ ms\n` +
        '  browsers do not let pages of http://localhost:5173 read this response; to allow it, start pets serve with --cors http://localhost:5173\n',
    ),
  );
});

test('--log contains no secret that a client sends as a request id or in a URL', async () => {
  const env = { PETS_SERVE_KEY: KEY, PETS_SERVE_TOKEN: 'my-own-token-0123456789' };
  const service = await serve(await freshMachine(), ['--ephemeral', '--log'], { env });
  const headers = { Authorization: `Bearer ${KEY}`, 'X-Request-Id': KEY };
  const { status } = await fetch(`${service.url}/pets?key=${KEY}&password=hunter2`, { headers });
  expect(status).toBe(200);
  for (const secret of [KEY, env.PETS_SERVE_TOKEN, 'other-secret'])
    await fetch(`${service.url}/pets?x=${secret.replaceAll('-', '%2d')}`, bearer('other-secret'));
  await service.end('SIGTERM');
  expect(service.stderr()).toContain('/v1/pets?key=');
  expect(service.stderr()).not.toMatch(/hunter2|…6789|0123456789|other.{1,3}secret/);
});
