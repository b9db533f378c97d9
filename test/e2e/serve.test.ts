import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findLockOwner } from '../../src/system/directory-lock.ts';
import { freshMachine, type Machine, type ProgramOptions, serve, serveCommand } from '../helpers/pets.ts';
import { creationBytes, openConnection } from '../helpers/stopping.ts';

// What the operator of `pets serve` sees and decides: keys, the token, seeds, the log, notices, and the way it ends.

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
  await expect.poll(program.stdout).toContain('try:');
  program.raise('SIGTERM');
  expect(await program.ended).toBe(0);
  return program.stdout();
}

describe('the key dev', () => {
  test('is the same after a restart, and stored in a file that only its owner can read', async () => {
    const { machine, start, startAndStop } = await machineWithStore();
    const first = await startAndStop();
    const second = await start();
    expect(second.key).toBe(first.key);
    const folder = join(machine.configDirectory, 'stores');
    const names = await readdir(folder);
    expect(names.map((name) => extname(name))).toEqual(['.key']);
    for (const name of names) expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
    expect(await statusOf(second, second.key)).toBe(200);
  });

  test('is replaced after it was revoked, but not with --no-profile if there are others, nor by one made elsewhere', async () => {
    const { start, startAndStop, list, keys } = await machineWithStore();
    const first = await startAndStop();
    await keys('add', 'till', '--plan', 'free');
    expect((await keys('revoke', 'dev')).code).toBe(0);
    expect((await startAndStop('--no-profile')).key).toBeUndefined();
    const second = await start();
    expect(second.key).not.toBe(first.key);
    expect([await statusOf(second, first.key), await statusOf(second, second.key)]).toEqual([401, 200]);
    expect((await list()).code).toBe(0);
    await second.end('SIGTERM');
    expect((await startAndStop()).key).toBe(second.key);
    await keys('revoke', 'dev');
    await keys('add', 'dev', '--plan', 'free');
    expect((await start()).key).toBeUndefined();
  });

  test.each([
    ['dev', 'pro'],
    ['mine', 'free'],
  ])(
    'revoked: `pets keys add %s | pets login` works while the server runs, and after a restart',
    async (name, plan) => {
      const { machine, start, list, keys } = await machineWithStore();
      const service = await start();
      await keys('revoke', 'dev');
      await expect.poll(() => statusOf(service, service.key)).toBe(401);
      const hint = 'or create one while it runs: pets keys add <name> | pets login --profile local';
      expect(await list()).toMatchObject({ code: 4, stderr: expect.stringContaining(hint) });
      const { stdout } = await keys('add', name, '--plan', plan);
      const { code } = await machine.pets(['login', '--profile', 'local'], { stdin: stdout });
      expect(code).toBe(0);
      await expect.poll(async () => (await list()).code).toBe(0);
      await service.end('SIGTERM');
      expect(await start()).toMatchObject({ key: stdout.trim(), plan });
    },
  );

  test('is created by the next start if it could not be saved', async () => {
    const { machine, data, start } = await machineWithStore();
    const file = await machine.file('file', '');
    const env = { PETS_CONFIG_DIR: join(file, 'x') };
    const unsaved = await serve(machine, data, { env });
    expect(unsaved.stderr()).toContain(`so the API key of this server is not kept`);
    expect(await statusOf(unsaved, unsaved.key)).toBe(200);
    await unsaved.end('SIGTERM');
    const service = await start();
    expect(await statusOf(service, unsaved.key)).toBe(401);
    expect(await statusOf(service, service.key)).toBe(200);
  });
});

test('the developer token is in --json, and after each use of the address of the page there is a new one', async () => {
  const service = await serve(await freshMachine(), ['--ephemeral', '--seed']);
  const events = () =>
    service
      .stdout()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  const { url, token, page } = service;
  expect((await fetch(new URL('/keys', url), bearer(token))).status).toBe(200);
  const body = JSON.stringify({ code: page.split('#c=')[1] });
  const headers = { 'Content-Type': 'application/json' };
  const opened = await fetch(new URL('/session', page), { method: 'POST', body, headers });
  expect(await opened.json()).toEqual({ token: expect.stringMatching(/^pets_/) });
  await expect.poll(events).toMatchObject([
    { event: 'listening', page },
    { event: 'page', page: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/#c=pets_[\w-]{43}$/) },
  ]);
  expect(service.stdout().split(page).length).toBe(2);
});

test('what a person sees has the address of the page, if there is a page, and that of the description of the API', async () => {
  const machine = await freshMachine();
  for (const args of [['--ephemeral', '--no-profile'], ['--no-page']]) {
    const printed = await printedBy(machine, args);
    expect(printed.match(/#c=/g) ?? []).toHaveLength(args.includes('--no-page') ? 0 : 1);
    expect(printed).toMatch(/API described in .*http:\/\/127\.0\.0\.1:\d+\/openapi\.json/);
  }
});

describe('a fixed key', () => {
  test('is read from PETS_SERVE_KEY or from the file of --key-file, which comes first; it is neither stored nor printed', async () => {
    const { machine, store, list } = await machineWithStore();
    const file = await machine.file('key', `${KEY}-file\n`);
    for (const [args, env, key] of [
      [[], { PETS_SERVE_KEY: `${KEY}\n` }, KEY],
      [['--key-file', file], {}, `${KEY}-file`],
      [['--key-file', file], { PETS_SERVE_KEY: KEY }, `${KEY}-file`],
    ] as const) {
      const service = await serve(machine, ['--data', store, '--plan', 'free', ...args], { env });
      const response = await fetch(`${service.url}/pets`, bearer(key));
      expect([response.status, response.headers.get('x-ratelimit-limit')]).toEqual([200, '60']);
      expect((await list()).code).toBe(0);
      expect(service).toMatchObject({ plan: 'free' });
      await service.end('SIGTERM');
      const printed = await printedBy(machine, ['--data', store, '--no-profile', ...args], { env });
      expect(printed).toContain(`API key from ${args.length > 0 ? file : 'PETS_SERVE_KEY'} (plan pro)`);
      expect(printed + service.stdout() + service.stderr()).not.toContain(KEY);
    }
    expect(await readdir(store)).not.toContain('keys');
    expect(await readFile(join(store, 'journal.ndjson'), 'utf8')).not.toContain(KEY);
  });

  test('and a chosen token are variables of the command after --, and are not printed', async () => {
    const machine = await freshMachine();
    const script = 'console.log(process.env.PETS_API_KEY, process.env.PETS_SERVE_TOKEN)';
    const args = ['serve', '--ephemeral', '--json', '--', process.execPath, '-e', script];
    expect((await machine.command(args)).stdout).toMatch(/^pets_[\w-]{43} pets_[\w-]{43}\n$/);
    const ran = await machine.command(args, { env: { PETS_SERVE_KEY: KEY, PETS_SERVE_TOKEN: TOKEN } });
    expect(ran).toMatchObject({ code: 0, stdout: `${KEY} ${TOKEN}\n` });
    const { event, plan, ...others } = JSON.parse(ran.stderr.split('\n')[0] ?? '');
    expect([event, plan, others.key, others.token]).toEqual(['listening', 'pro', undefined, undefined]);
    expect(ran.stderr).not.toMatch(/my-own|my-token/);
  });

  test.skipIf(process.platform === 'win32')('is read from a pipe', async () => {
    const machine = await freshMachine();
    const pipe = join(machine.home, 'key');
    execFileSync('mkfifo', [pipe]);
    const args = [
      'serve',
      '--ephemeral',
      '--key-file',
      pipe,
      '--',
      process.execPath,
      '-p',
      'process.env.PETS_API_KEY',
    ];
    const [ran] = await Promise.all([machine.command(args), writeFile(pipe, `${KEY}\n`)]);
    expect(ran).toMatchObject({ code: 0, stdout: `${KEY}\n` });
  });

  const [key7, key8] = ['seven77', 'eight888'].map((PETS_SERVE_KEY) => ({ PETS_SERVE_KEY }));
  const key19 = { PETS_SERVE_KEY: 'nineteen-characters' };
  const key20 = { PETS_SERVE_KEY: 'twenty-characters-20' };
  const reachable = ['--allow-host', 'a.test'];
  const short = 'the key in PETS_SERVE_KEY is too short\n  → use at least';
  const token = (PETS_SERVE_TOKEN: string) => ({ PETS_SERVE_TOKEN });

  test.each<[string, Record<string, string> | undefined, string[], number, string]>([
    ['a key of 7 characters', key7, [], 2, `${short} 8 `],
    ['a key of 19 characters with --allow-host', key19, reachable, 2, `${short} 20 `],
    ['a key of 19 characters on another address', key19, ['--host', '0.0.0.0'], 2, `${short} 20 `],
    ['an address that cannot be found', key19, ['--host', 'a..b'], 1, 'cannot listen on a..b'],
    ['an empty key', { PETS_SERVE_KEY: '' }, [], 2, 'the key in PETS_SERVE_KEY is empty'],
    ['a key with a space', { PETS_SERVE_KEY: 'a secret' }, [], 2, 'the key in PETS_SERVE_KEY is not valid'],
    ['a file that does not exist', {}, ['--key-file', 'none'], 1, 'cannot read none: it does not exist'],
    ['a directory', {}, ['--key-file', '/'], 1, 'cannot read /'],
    ['a token of 19 characters', token('nineteen-characters'), [], 2, 'PETS_SERVE_TOKEN is too short'],
    ['a token that is the key', { ...key20, ...token('twenty-characters-20') }, [], 2, 'are the same'],
    ['a key of 8 characters for this machine', key8, [], 0, ''],
    ['a key of 20 characters with --allow-host', key20, reachable, 0, ''],
  ])(
    '%s: the exit code is checked before anything is created',
    async (_about, env = {}, args, code, message) => {
      const machine = await freshMachine();
      const data = join(machine.home, 'store');
      const line = ['serve', '--no-profile', '--data', data, '--port', '0', ...args, '--', 'true'];
      const ran = await machine.pets(line, { env });
      expect(ran).toMatchObject({ code, stderr: expect.stringContaining(message) });
      expect(ran.stderr).not.toMatch(/a secret|seven77|nineteen|twenty-characters/);
      if (code !== 0) await expect(readdir(data)).rejects.toThrow('ENOENT');
    },
  );
});

const noticesOf = async (machine: Machine, args: readonly string[]): Promise<string[]> => {
  const service = await serve(machine, args);
  await service.end('SIGTERM');
  return notices(service.stderr());
};

test('a notice reports that --plan does not change the key of a store, and names a command that works', async () => {
  const { machine, data, start } = await machineWithStore();
  for (const plan of [['--plan', 'free'], ['--plan', 'free'], []])
    expect(await noticesOf(machine, [...data, '--no-profile', ...plan])).toEqual([]);
  const [notice = '', ...others] = await noticesOf(machine, [...data, '--no-profile', '--plan', 'business']);
  expect(others).toEqual([]);
  const [, line = ''] =
    /^--plan business was ignored, because the store is not new and its key has plan free; .*: pets (keys add .*) \| pets login --profile local --base-url \S+$/.exec(
      notice,
    ) ?? [];
  const { code, stdout } = await machine.pets(line.replace('<name>', 'faster').split(' '));
  expect(code).toBe(0);
  await machine.saveProfile('local', { baseUrl: 'http://127.0.0.1:9/v1', key: stdout.trim() });
  const service = await start('--plan', 'business');
  expect(notices(service.stderr())).toEqual([]);
  expect(await statusOf(service, service.key)).toBe(200);
});

const NO_PAGE =
  'other machines may reach this server, so it has no page and no other developer tools; to have them: --page';
const PLAIN =
  'other machines can reach this server, and API keys are sent to it unencrypted; use a reverse proxy with TLS, and set --public-url to its https URL';
const tls = ['--public-url', 'https://shop.test/v1'];

test.each([
  [['--host', '127.0.0.1'], []],
  [
    ['--host', '0.0.0.0'],
    [NO_PAGE, PLAIN],
  ],
  [['--host', '0.0.0.0', '--no-page'], [PLAIN]],
  [['--host', '0.0.0.0', ...tls], [NO_PAGE]],
  [['--host', '0.0.0.0', ...tls, '--page'], []],
  [tls, [NO_PAGE]],
  [[...tls, '--no-page'], []],
])('a notice with %j warns about who can reach the server: %j', async (args, expected) => {
  const machine = await freshMachine();
  const service = await serve(machine, ['--ephemeral', ...args]);
  expect(service.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
  expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
  await service.end('SIGTERM');
  expect(notices(service.stderr())).toEqual(expected);
});

test('a notice about the options and the profile is not shown with --quiet, but one about a problem is', async () => {
  const { machine, store, data } = await machineWithStore();
  await machine.saveProfile('local', { baseUrl: 'https://shop.test/v1' });
  const args = [...data, '--allow-host', 'shop.test', '--seed'];
  await noticesOf(machine, args);
  const journal = () => readFile(join(store, 'journal.ndjson'), 'utf8');
  const before = await journal();
  expect(await noticesOf(machine, [...args, '--plan', 'free'])).toEqual([
    'store is not empty; --seed was ignored',
    NO_PAGE,
    expect.stringContaining('--plan free was ignored'),
    'profile local was not changed, because it points to another machine: https://shop.test/v1',
  ]);
  expect(await journal()).toBe(before);
  expect(await noticesOf(machine, [...args, '--plan', 'free', '--quiet'])).toEqual([]);
  const path = join(store, 'keys', 'shop.json');
  await writeFile(path, '{"half":');
  expect(await noticesOf(machine, [...args, '--quiet'])).toEqual([
    `${path} is damaged: it is not valid JSON; correct the file or its name; or revoke the key shop, then create it again`,
  ]);
});

describe.skipIf(process.platform === 'win32')('the first 429 of a run with a command', () => {
  /** Sends more requests than plan free allows, and some without a valid key or with an error on demand. */
  const script = `
    const { PETS_BASE_URL: url, PETS_API_KEY: key } = process.env;
    const send = (headers) => fetch(url + '/pets', { headers });
    (async () => {
      const sendMany = (count, headers) => Promise.all(Array.from({ length: count }, () => send(headers)));
      await sendMany(70, { Authorization: 'Bearer wrong' });
      await send({ Authorization: 'Bearer ' + key, Prefer: 'code=429' });
      await sendMany(130, { Authorization: 'Bearer ' + key });
    })();`;

  test.each([
    ['prints one hint', ['--plan', 'free'], 1],
    ['cannot happen with --plan enterprise', ['--plan', 'enterprise'], 0],
  ])('%s', async (_what, options, count) => {
    const machine = await freshMachine();
    const args = ['serve', '--ephemeral', '--allow-host', 'shop.test', '--page', '--json', ...options];
    const { code, stderr } = await machine.pets([...args, '--', process.execPath, '-e', script]);
    expect(code).toBe(0);
    expect(notices(stderr)).toHaveLength(count);
    for (const notice of notices(stderr))
      expect(notice).toMatch(/60 requests per minute.*pets serve --plan enterprise -- …$/);
  });
});

test('--seed with a file that has only orders works again', async () => {
  const { machine, start, startAndStop } = await machineWithStore();
  const orders = '[{"total":1.50,"id":9007199254740993}]';
  const file = await machine.file('orders.json', `{"pets":[],"orders":${orders}}`);
  await startAndStop('--seed', file);
  await start('--seed', file);
  const { stdout } = await machine.pets(['--profile', 'local', 'orders', '--json']);
  expect(stdout).toBe(`${orders}\n`);
});

test.each([
  ['--log', 1],
  ['--no-page', 0],
])('--log with %s, %i requests are printed to stderr', async (option, count) => {
  const service = await serve(await freshMachine(), ['--ephemeral', option]);
  await statusOf(service, service.key);
  await service.end('SIGTERM');
  const request = {
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    id: expect.stringMatching(/^[0-9a-f]{12}-\d+$/),
    keyName: '(ephemeral)',
    client: '127.0.0.1',
    method: 'GET',
    url: '/v1/pets',
    status: 200,
    milliseconds: expect.any(Number),
  };
  const lines = service.stderr().split('\n').filter(Boolean);
  expect(lines.map((line) => JSON.parse(line))).toEqual(Array(count).fill({ request }));
});

test('/readyz is 503 while the API keys cannot be read', async () => {
  const { store, start } = await machineWithStore();
  const service = await start();
  const readyz = async () => {
    const response = await fetch(new URL('/readyz', service.url));
    return [response.status, ((await response.json()) as { code?: string }).code];
  };
  expect(await readyz()).toEqual([200, undefined]);
  await rename(join(store, 'keys'), join(store, 'kept'));
  await writeFile(join(store, 'keys'), '');
  expect(await readyz()).toEqual([503, 'storage_unreachable']);
  await rm(join(store, 'keys'));
  await rename(join(store, 'kept'), join(store, 'keys'));
  expect(await readyz()).toEqual([200, undefined]);
});

test('--log prints a short line for each request, and the reason of an error below it', async () => {
  const script = `
    const [url, key] = [process.env.PETS_BASE_URL + '/pets', process.env.PETS_API_KEY];
    const headers = { Authorization: 'Bearer ' + key };
    await fetch(url + '?limit=5&status=available', { headers });
    await fetch(url + '?limit=500', { headers });
    await fetch(url, { method: 'OPTIONS', headers: { Origin: 'http://localhost:5173', 'Access-Control-Request-Method': 'GET' } });`;
  const command = ['--', process.execPath, '--input-type=module', '-e', script];
  const { stderr } = await (await freshMachine()).command([
    'serve',
    '--ephemeral',
    '--log',
    '--no-page',
    ...command,
  ]);
  const time = '\\d\\d:\\d\\d:\\d\\d';
  expect(stderr).toMatch(
    new RegExp(
      `\n${time} GET /v1/pets\\?limit=5&status=available 200 \\d+ ms\n` +
        `${time} GET /v1/pets\\?limit=500 400 \\d+ ms\n  limit must be an integer from 1 to 100\n` +
        `${time} OPTIONS /v1/pets 204 \\d+ ms\n` +
        '  origin http://localhost:5173 refused; start with --cors http://localhost:5173\n',
    ),
  );
});

test('--log contains no secret that a client sends as a request id or in a URL, in any form', async () => {
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

test('--log that nothing reads does not stop the service, and it ends', async () => {
  const service = await serveCommand(await freshMachine(), ['--ephemeral', '--no-profile', '--log']);
  service.child.stderr?.pause();
  const path = `${service.url}/pets?${'x'.repeat(4_000)}`;
  for (let i = 0; i < 10; i++)
    await Promise.all(Array.from({ length: 40 }, () => fetch(path, bearer(service.key))));
  expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
});

describe('a port that is in use', () => {
  test('by the server of the same store: the error names that server and the store', async () => {
    const machine = await freshMachine();
    const first = await serve(machine);
    const { port } = new URL(first.url);
    const again = await machine.pets(['serve', '--port', port]);
    expect(again.code).toBe(1);
    const store = join(machine.home, '.local', 'share', 'pets', 'store');
    expect(again.stderr).toBe(
      `error: cannot listen on 127.0.0.1:${port}: the address is already in use; pets serve (process ${first.pid}) already runs at ${first.url} with the store in ${store}\n` +
        '  → use it, or stop it; for another server: --port 0 (any free port) with --ephemeral or --data <dir>\n',
    );
  });

  test('by another program: the hint offers a free port', async () => {
    const machine = await freshMachine();
    const { port } = new URL((await serve(machine)).url);
    const again = await machine.pets(['serve', '--port', port, '--data', join(machine.home, 'other')]);
    expect(again.code).toBe(1);
    expect(again.stderr).toMatch(/: the address is already in use\n {2}→ for another server: --port 0/);
    expect(await readdir(machine.home)).not.toContain('other');
  });
});

test('the first request that is not refused because the server starts is accepted', async () => {
  const { machine, store } = await machineWithStore();
  for (let start = 0; start < 5; start++) {
    const starting = serve(machine, ['--data', store], { env: { PETS_SERVE_KEY: KEY } });
    let url: string | undefined;
    while (url === undefined) url = (await findLockOwner(store))?.url;
    let status = 503;
    while (status === 503) status = await statusOf({ url }, KEY);
    expect(status).toBe(200);
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
    await (await starting).end('SIGTERM');
  }
});

test('a start deletes the temporary store of a server that was killed', async () => {
  const machine = await freshMachine();
  const stores = async () =>
    (await readdir(machine.home)).filter((name) => name.startsWith('pets-ephemeral-'));
  await (await serveCommand(machine, ['--ephemeral'])).end('SIGKILL');
  const [left = ''] = await stores();
  expect(left).not.toBe('');
  const next = await serve(machine, ['--ephemeral']);
  await expect.poll(stores).not.toContain(left);
  expect(await stores()).toHaveLength(1);
  await next.end('SIGTERM');
  expect(await stores()).toEqual([]);
});

test.skipIf(process.platform === 'win32')(
  'a temporary store works in a directory for temporary files with a long path',
  async () => {
    const machine = await freshMachine();
    const TMPDIR = join(machine.home, 'x'.repeat(120));
    await mkdir(TMPDIR);
    const ran = await machine.command(['serve', '--ephemeral', '--quiet', '--', 'true'], { env: { TMPDIR } });
    expect(ran).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(await readdir(TMPDIR)).toEqual([]);
  },
);

test('profile local is changed by each server, unless it points to another machine', async () => {
  const machine = await freshMachine();
  await serve(machine, ['--data', join(machine.home, 'a')]);
  const second = await serve(machine, ['--data', join(machine.home, 'b')]);
  const profile = async () => JSON.parse(await readFile(join(machine.configDirectory, 'local.json'), 'utf8'));
  expect(await profile()).toEqual({ baseUrl: second.url, key: second.key });
  const other = { baseUrl: 'https://shop.test/v1', key: 'key-of-another-machine' };
  await machine.saveProfile('local', other);
  await serve(machine, ['--data', join(machine.home, 'c')]);
  expect(await profile()).toEqual(other);
});

test('a service runs on after the reader of its stdout has closed the pipe, and ends with 0', async () => {
  const service = await serveCommand(await freshMachine(), ['--ephemeral']);
  service.child.stdout?.destroy();
  expect(await statusOf(service, service.key)).toBe(200);
  expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
  expect(service.stderr()).toBe('');
});

test.skipIf(process.platform !== 'linux')(
  'a full disk for stdout ends the service with a message',
  async () => {
    const machine = await freshMachine();
    const { code, stderr } = await machine.shell('pets serve --ephemeral --port 0 --no-profile > /dev/full');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: cannot write the output: the disk is full/);
    expect(stderr).not.toContain('    at ');
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  },
);

/** Adds an animal, moves the store, and adds another one. Prints the responses, and waits until the service ends. */
const MOVE = `
  import { renameSync } from 'node:fs';
  const send = async (name) => {
    const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY, 'Content-Type': 'application/json' };
    const body = JSON.stringify({ name, categoryId: 1 });
    const response = await fetch(process.env.PETS_BASE_URL + '/pets', { method: 'POST', headers, body });
    const { id, code } = await response.json();
    console.log(name, response.status, id ?? code);
  };
  await send('before');
  renameSync(process.env.DATA, process.env.DATA + '-moved');
  await send('after').catch(() => console.log('after: no connection'));
  setTimeout(() => {}, 60_000);`;

// test/store/journal-store.test.ts has other ways to lose a journal, and failed-writes.test.ts the errors of a disk.
test.skipIf(process.platform === 'win32')(
  'a store that was moved ends the service with the reason, and acknowledges nothing',
  async () => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const { code, stdout, stderr } = await machine.shell(
      `pets serve --json --data "${data}" -- "$NODE" --input-type=module -e "$MOVE"`,
      { env: { MOVE, DATA: data } },
    );
    expect(code).toBe(1);
    expect(stderr).toContain(
      `${join(data, 'journal.ndjson')} was moved, replaced or deleted while it was in use`,
    );
    expect(stderr).toContain('"store_error"');
    // The service ends the command, often before the command prints the second response.
    expect(stdout).toContain('before 201 1');
    expect(stdout).not.toContain('after 201');
  },
);

/** Starts a service, sends a creation without its last bytes, and then moves the store away. */
async function serveWithHalfACreation() {
  const { machine, store } = await machineWithStore();
  const service = await serveCommand(machine, ['--data', store]);
  const connection = await openConnection(service);
  const bytes = creationBytes(service, 'Rex');
  connection.socket.write(bytes.slice(0, -10));
  // The response to another request shows that the service has read what was sent before.
  expect(await statusOf(service, service.key)).toBe(200);
  await rename(store, `${store}-moved`);
  return { service, connection, sendRest: () => connection.socket.write(bytes.slice(-10)) };
}

test.skipIf(process.platform === 'win32')(
  'a store that fails while the service stops is reported, with exit code 1',
  async () => {
    const { service, connection, sendRest } = await serveWithHalfACreation();
    service.child.kill('SIGTERM');
    sendRest();
    expect(await connection.receive()).toMatchObject({ status: 503 });
    expect(await service.ended).toEqual({ code: 1, signal: null });
    expect(service.stderr()).toMatch(/"message":".*was moved, replaced or deleted .*","hint":"/);
  },
);

test.skipIf(process.platform === 'win32')(
  'a request that is still being sent when the store fails gets its response before the service ends',
  async () => {
    const { service, connection, sendRest } = await serveWithHalfACreation();
    const other = await openConnection(service);
    other.socket.write(creationBytes(service, 'Tom'));
    const refused = { status: 503, body: expect.stringContaining('storage_') };
    expect(await other.receive()).toMatchObject(refused);
    sendRest();
    expect(await connection.receive()).toMatchObject(refused);
    expect(await service.ended).toEqual({ code: 1, signal: null });
    expect(service.stderr()).toMatch(/"message":".*was moved, replaced or deleted .*","hint":"/);
  },
);
