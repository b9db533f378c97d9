import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';

// These tests are about what the operator of `pets serve` sees and decides: keys, notices and hints.

const KEY = 'my-own-key-0123456789';
const NINETEEN = { PETS_SERVE_KEY: 'nineteen-characters' };
const REACHABLE = 'the key in PETS_SERVE_KEY is too short for a server that other machines can reach';

const notices = (stderr: string) =>
  stderr
    .split('\n')
    .filter((line) => line.startsWith('{"notice"'))
    .map((line) => JSON.parse(line).notice as string);

/** Runs `pets serve` until it listens, stops it, and returns its notices. */
async function noticesOf(machine: Machine, args: readonly string[]): Promise<string[]> {
  const service = await serve(machine, ['--no-profile', ...args]);
  await service.end('SIGTERM');
  return notices(service.stderr());
}

describe('the developer token', () => {
  const TOKEN = 'my-token/of+20=characters';
  const bearer = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } });

  test('is in --json and in a private file while the server runs, and after each use there is a new address', async () => {
    const machine = await freshMachine();
    const service = await serve(machine, ['--seed']);
    const { store } = JSON.parse(service.stdout().split('\n')[0] ?? '');
    const file = join(machine.configDirectory, 'stores', `${store}.server`);
    const { url, token, page } = service;
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({ url, token });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await fetch(new URL('/keys', url), bearer(token))).status).toBe(200);
    const body = JSON.stringify({ code: page.split('#c=')[1] });
    const headers = { 'Content-Type': 'application/json' };
    const opened = await fetch(new URL('/session', page), { method: 'POST', body, headers });
    expect(await opened.json()).toEqual({ token: expect.stringMatching(/^pets_/) });
    await expect
      .poll(() =>
        service
          .stdout()
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line)),
      )
      .toMatchObject([
        { event: 'listening', page },
        { event: 'page', page: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/#c=pets_[\w-]{43}$/) },
      ]);
    expect(service.stdout().split(page).length).toBe(2);
    await service.end('SIGTERM');
    await expect(readFile(file)).rejects.toThrow('ENOENT');
  });

  test('of a later server of the same store stays in the file', async () => {
    const machine = await freshMachine();
    const service = await serve(machine);
    const { store } = JSON.parse(service.stdout().split('\n')[0] ?? '');
    const file = join(machine.configDirectory, 'stores', `${store}.server`);
    await writeFile(file, '{"url":"http://127.0.0.1:1/v1","token":"other"}');
    await service.end('SIGTERM');
    expect(await readFile(file, 'utf8')).toContain('other');
  });

  test('is not printed to a person, and --ephemeral and --no-page write no file', async () => {
    const machine = await freshMachine();
    for (const args of [['--ephemeral', '--no-profile'], ['--no-page']]) {
      const program = machine.startProgram(['serve', '--port', '0', ...args], { columns: 100 });
      await expect.poll(program.stdout).toContain('pets serve');
      program.raise('SIGTERM');
      await program.ended;
      const files = await readdir(machine.configDirectory, { recursive: true }).catch(() => []);
      expect(files.filter((name) => name.endsWith('.server'))).toEqual([]);
      expect(program.stdout().match(/#c=/g) ?? []).toHaveLength(args.includes('--no-page') ? 0 : 1);
    }
  });

  test('in PETS_SERVE_TOKEN opens the tools and the metrics, and is never printed', async () => {
    const machine = await freshMachine();
    const env = { PETS_SERVE_TOKEN: TOKEN };
    const args = ['serve', '--ephemeral', '--json', '--log', '--port', '0', '--allow-host', 'shop.test'];
    const program = machine.startProgram(args, { env });
    const { url, token } = JSON.parse(await program.firstLine());
    expect(token).toBeUndefined();
    const status = async (path: string, init = {}) => (await fetch(new URL(path, url), init)).status;
    expect(await status('/metrics')).toBe(401);
    expect(await status('/metrics', bearer(TOKEN))).toBe(200);
    expect(await status('/keys', bearer(TOKEN))).toBe(404);
    expect(await status(`/v1/pets?token=${TOKEN}`, bearer(TOKEN))).toBe(401);
    program.raise('SIGTERM');
    await program.ended;
    expect(program.stderr()).toContain('/v1/pets?token=');
    expect(program.stdout() + program.stderr()).not.toContain(TOKEN);
  });

  test('is PETS_SERVE_TOKEN of the command after --', async () => {
    const machine = await freshMachine();
    const script = 'console.log(process.env.PETS_SERVE_TOKEN)';
    const args = ['serve', '--ephemeral', '--quiet', '--', process.execPath, '-e', script];
    expect((await machine.command(args)).stdout).toMatch(/^pets_[\w-]{43}\n$/);
    expect((await machine.command(args, { env: { PETS_SERVE_TOKEN: TOKEN } })).stdout).toBe(`${TOKEN}\n`);
  });

  test.each([
    ['19 characters', 'nineteen-characters', 'too short'],
    ['a space', 'a secret of twenty characters', 'not valid'],
    ['an empty variable', '', 'empty'],
  ])('with %s is an error before anything is created', async (_, token, reason) => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const args = ['serve', '--data', data, '--port', '0'];
    const ran = await machine.pets(args, { env: { PETS_SERVE_TOKEN: token } });
    expect(ran).toMatchObject({ code: 2, stdout: '' });
    expect(ran.stderr).toContain(`the token in PETS_SERVE_TOKEN is ${reason}`);
    expect(ran.stderr).not.toMatch(/a secret|nineteen/);
    await expect(readdir(data)).rejects.toThrow('ENOENT');
  });
});

describe('a fixed key', () => {
  test('is read from PETS_SERVE_KEY or from the file of --key-file, which comes first', async () => {
    const machine = await freshMachine();
    const file = await machine.file('key', `${KEY}-file\n`);
    for (const [args, env, key] of [
      [[], { PETS_SERVE_KEY: `${KEY}\n` }, KEY],
      [['--key-file', file], {}, `${KEY}-file`],
      [['--key-file', file], { PETS_SERVE_KEY: KEY }, `${KEY}-file`],
    ] as const) {
      const program = machine.startProgram(['serve', '--json', '--port', '0', '--plan', 'free', ...args], {
        env,
      });
      const event = JSON.parse(await program.firstLine());
      const response = await fetch(`${event.url}/pets`, { headers: { Authorization: `Bearer ${key}` } });
      expect([response.status, response.headers.get('x-ratelimit-limit')]).toEqual([200, '60']);
      expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
      // Logs of containers are kept, so the key must not be in the output.
      expect(event).toMatchObject({ plan: 'free' });
      program.raise('SIGTERM');
      await program.ended;
      expect(program.stdout() + program.stderr()).not.toContain(KEY);
    }
  });

  test('is not stored in the store, and not shown to a person', async () => {
    const machine = await freshMachine();
    const store = join(machine.home, 'store');
    const args = ['serve', '--port', '0', '--no-profile', '--data', store];
    const program = machine.startProgram(args, { env: { PETS_SERVE_KEY: KEY }, columns: 100 });
    await expect.poll(program.stdout).toContain('API key from PETS_SERVE_KEY (plan pro)');
    program.raise('SIGTERM');
    expect(await program.ended).toBe(0);
    expect(program.stdout()).not.toContain(KEY);
    expect(await readdir(store)).not.toContain('keys');
    expect(await readFile(join(store, 'journal.ndjson'), 'utf8')).not.toContain(KEY);
  });

  test('is the key of the command after --', async () => {
    const machine = await freshMachine();
    const script = `console.log(process.env.PETS_API_KEY)`;
    const args = ['serve', '--ephemeral', '--quiet', '--', process.execPath, '-e', script];
    expect(await machine.command(args, { env: { PETS_SERVE_KEY: KEY } })).toMatchObject({
      code: 0,
      stdout: `${KEY}\n`,
    });
  });

  test.each([
    ['a key of 7 characters', { PETS_SERVE_KEY: 'seven77' }, [], 2, 'PETS_SERVE_KEY is too short'],
    [
      'a token that is the key',
      { PETS_SERVE_KEY: 'x'.repeat(20), PETS_SERVE_TOKEN: 'x'.repeat(20) },
      [],
      2,
      'PETS_SERVE_TOKEN and the API key are the same',
    ],
    ['a key of 19 characters with --allow-host', NINETEEN, ['--allow-host', 'a.test'], 2, REACHABLE],
    ['a key of 19 characters on another address', NINETEEN, ['--host', '0.0.0.0'], 2, REACHABLE],
    ['an address that cannot be found', NINETEEN, ['--host', 'a..b'], 1, 'cannot listen on a..b'],
    ['an empty variable', { PETS_SERVE_KEY: '' }, [], 2, 'the key in PETS_SERVE_KEY is empty'],
    ['a key with a space', { PETS_SERVE_KEY: 'a secret' }, [], 2, 'the key in PETS_SERVE_KEY is not valid'],
    ['a file that does not exist', {}, ['--key-file', 'none'], 2, 'the key file none does not exist'],
    ['a directory', {}, ['--key-file', '/'], 1, 'cannot read /'],
  ])('%s is an error', async (_about, env, args, code, message) => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const ran = await machine.pets(['serve', '--data', data, '--port', '0', ...args], { env });
    expect(ran).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(message) });
    expect(ran.stderr).not.toMatch(/a secret|seven77|nineteen/);
    await expect(readdir(data)).rejects.toThrow('ENOENT');
  });

  test.each([
    ['8 characters if the server is local', 'eight888', []],
    ['20 characters if other machines can reach it', 'twenty-characters-20', ['--allow-host', 'a.test']],
  ])('may have %s', async (_length, key, args) => {
    const machine = await freshMachine();
    const file = await machine.file('key', `${key}\n`);
    const { url, end } = await serve(machine, ['--no-profile', '--key-file', file, ...args]);
    const { status } = await fetch(`${url}/pets`, { headers: { Authorization: `Bearer ${key}` } });
    expect(status).toBe(200);
    await end('SIGTERM');
  });
});

describe('a notice', () => {
  test('reports that --plan does not change the key of a store', async () => {
    const machine = await freshMachine();
    const data = ['--data', join(machine.home, 'store')];
    expect(await noticesOf(machine, [...data, '--plan', 'free'])).toEqual([]);
    expect(await noticesOf(machine, [...data, '--plan', 'free'])).toEqual([]);
    expect(await noticesOf(machine, data)).toEqual([]);
    const [notice, ...others] = await noticesOf(machine, [...data, '--plan', 'enterprise']);
    expect(notice).toMatch(
      /^--plan enterprise ignored, because the store is not new and its key has plan free; /,
    );
    expect(others).toEqual([]);
  });

  test('of --plan names a command that works', async () => {
    const machine = await freshMachine();
    const data = ['--data', join(machine.home, 'store')];
    await noticesOf(machine, data);
    const [notice = ''] = await noticesOf(machine, [...data, '--plan', 'business']);
    const [, line = ''] = /: pets (keys add .*)$/.exec(notice) ?? [];
    const words = line.replace('<name>', 'faster').split(' ');
    expect(await machine.pets(words)).toMatchObject({ code: 0 });
    const service = await serve(machine, [...data, '--plan', 'business']);
    expect(notices(service.stderr())).toEqual([]);
    const { status } = await fetch(`${service.url}/pets`, {
      headers: { Authorization: `Bearer ${service.key}` },
    });
    expect(status).toBe(200);
  });

  test('reports damaged key files at the start', async () => {
    const machine = await freshMachine();
    const store = join(machine.home, 'store');
    await noticesOf(machine, ['--data', store]);
    const path = join(store, 'keys', 'shop.json');
    await writeFile(path, '{"half":');
    expect(await noticesOf(machine, ['--data', store])).toEqual([
      `${path} is damaged: it is not valid JSON; revoke the key, then create it again`,
    ]);
  });

  test('warns about plain http on an address that other machines can reach', async () => {
    const machine = await freshMachine();
    expect(await noticesOf(machine, ['--ephemeral', '--host', '127.0.0.1'])).toEqual([]);
    const reachable = ['--ephemeral', '--no-page', '--host', '0.0.0.0'];
    expect(await noticesOf(machine, reachable)).toEqual([expect.stringContaining('unencrypted')]);
    const behindProxy = ['--public-url', 'https://shop.test/v1'];
    expect(await noticesOf(machine, [...reachable, ...behindProxy])).toEqual([]);
  });

  test.each([
    [['--host', '0.0.0.0', '--public-url', 'https://shop.test/v1']],
    [['--allow-host', 'shop.test']],
    [['--public-url', 'https://shop.test/v1']],
    [['--trust-proxy', '127.0.0.1']],
  ])('with %j says that there is no page, unless --page or --no-page is given', async (args) => {
    const machine = await freshMachine();
    const given = ['--ephemeral', ...args];
    expect(await noticesOf(machine, given)).toEqual([
      'other machines may reach this server, so it has no page and no other developer tools; to have them: --page',
    ]);
    expect(await noticesOf(machine, [...given, '--page'])).toEqual([]);
    expect(await noticesOf(machine, [...given, '--no-page'])).toEqual([]);
  });

  test('about the options and the profile is not shown with --quiet, but one about a problem is', async () => {
    const machine = await freshMachine();
    const running = await serve(machine, ['--data', join(machine.home, 'other')]);
    const store = join(machine.home, 'store');
    const args = ['--data', store, '--allow-host', 'shop.test', '--seed'];
    const noticesWith = async (...options: string[]) => {
      const service = await serve(machine, [...args, ...options]);
      await service.end('SIGTERM');
      return notices(service.stderr());
    };
    await noticesWith();
    expect(await noticesWith('--plan', 'free')).toEqual([
      expect.stringContaining('--seed ignored'),
      expect.stringContaining('no page'),
      expect.stringContaining('--plan free ignored'),
      expect.stringContaining(
        `profile local was not changed, because it points to a running service at ${running.url}`,
      ),
    ]);
    expect(await noticesWith('--plan', 'free', '--quiet')).toEqual([]);
    await writeFile(join(store, 'keys', 'shop.json'), '{"half":');
    expect(await noticesWith('--quiet')).toEqual([expect.stringContaining('shop.json is damaged')]);
  });
});

describe.skipIf(process.platform === 'win32')('the first 429 of a run with a command', () => {
  /** Sends more requests than plan free allows, and some without a valid key or with an error on demand. */
  const script = `
    const { PETS_BASE_URL: url, PETS_API_KEY: key } = process.env;
    const send = (headers) => fetch(url + '/pets', { headers });
    (async () => {
      for (let i = 0; i < 70; i++) await send({ Authorization: 'Bearer wrong' });
      await send({ Authorization: 'Bearer ' + key, Prefer: 'code=429' });
            for (let i = 0; i < 130; i++) await send({ Authorization: 'Bearer ' + key });
    })();`;

  test.each([
    ['prints one hint', ['--plan', 'free'], 1],
    ['prints no hint with --quiet', ['--plan', 'free', '--quiet'], 0],
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
