import { hash } from 'node:crypto';
import { cp, readdir, readFile, realpath, rm, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isLockName } from '../../src/system/directory-lock.ts';
import { manualClock } from '../helpers/clock.ts';
import { closedPort } from '../helpers/listen.ts';
import { freshMachine, type Machine, type ProgramOptions, serve } from '../helpers/pets.ts';
import { scriptedServer } from '../helpers/scripted-server.ts';

/** A machine with two stores, `one` and `my two`, and no profiles. */
async function machineWithStores() {
  const machine = await freshMachine();
  const [one, two] = [join(machine.home, 'one'), join(machine.home, 'my two')];
  const starts = [one, two].map((store) => serve(machine, ['--no-profile', '--data', store]));
  await Promise.all(starts.map(async (start) => (await start).end('SIGTERM')));
  return { machine, one, two };
}

const namesOf = async (machine: Machine, data: string): Promise<string[]> => {
  const { stdout } = await machine.pets(['keys', 'list', '--json', '--data', data]);
  return JSON.parse(stdout).map(({ name }: { name: string }) => name);
};

const localProfile = async ({ configDirectory }: Machine) =>
  JSON.parse(await readFile(join(configDirectory, 'local.json'), 'utf8'));

test.each([
  [['list']],
  [['add', 'till', '--plan', 'free']],
  [['add', 'till', '--save']],
  [['revoke', 'till']],
])('without a store, pets keys %s says so, shows how to create one, and creates nothing', async (command) => {
  const machine = await freshMachine();
  await machine.file('files/x', '');
  const path = (name: string) => join(machine.home, name);
  for (const [args, place, next] of [
    [['--data', path('my store')], path('my store'), `pets serve --data '${path('my store')}'`],
    [['--data', path('files')], path('files'), `pets serve --data ${path('files')}`],
    [[], path('.local/share/pets/store'), 'pets serve; or name another with --data or PETS_DATA'],
  ] as const) {
    const { code, stdout, stderr } = await machine.pets(['keys', ...command, ...args]);
    const error = `error: there is no store in ${place}\n  → create one: ${next}\n`;
    expect([code, stdout, stderr]).toEqual([1, '', error]);
  }
  expect(await readdir(machine.home, { recursive: true })).toEqual(['files', 'files/x']);
});

test('a hint of pets keys repeats --data if it was given', async () => {
  const { machine, two } = await machineWithStores();
  const hint = async (args: readonly string[], env = {}) =>
    (await machine.pets(['keys', 'list', ...args], { env })).stderr;
  expect(await hint(['--data', two])).not.toContain('Create one');
  await machine.pets(['keys', 'revoke', 'dev', '--data', two]);
  expect(await hint(['--data', two])).toContain(`Create one: pets keys add <name> --data '${two}'\n`);
  expect(await hint([], { PETS_DATA: two })).toContain('Create one: pets keys add <name>\n');
});

describe('pets keys list', () => {
  const listed = async (machine: Machine, args: readonly string[], options?: ProgramOptions) => {
    const { stdout, stderr } = await machine.pets(['keys', 'list', '--json', '--data', ...args], options);
    return { keys: JSON.parse(stdout), stderr };
  };

  const unknown = { minuteLeft: null, dayLeft: null };
  const left = { minuteLeft: 298, dayLeft: 9_998, bannedUntil: null };

  /** A server with the store `one`, to which two requests were sent. */
  async function serverWithRequests() {
    const stores = await machineWithStores();
    // The clock stands still, so that no new minute begins.
    const service = await serve(stores.machine, ['--data', stores.one], { clock: manualClock() });
    for (let i = 0; i < 2; i++)
      await fetch(`${service.url}/pets`, {
        headers: { Authorization: `Bearer ${service.key}`, Connection: 'close' },
      });
    return { ...stores, service };
  }

  const idOf = async (data: string): Promise<string> =>
    JSON.parse((await readFile(join(data, 'journal.ndjson'), 'utf8')).split('\n')[0] ?? '').id;

  /** The path, from the home directory, of the file in which `pets serve` leaves its address. */
  const serverFile = async (data: string) =>
    `.config/pets/stores/${await idOf(data)}-${hash('sha256', await realpath(data)).slice(0, 16)}.server`;

  const writeServer = async (machine: Machine, data: string, server: { url: string; token: string }) =>
    machine.file(await serverFile(data), JSON.stringify(server));

  const ban = async (machine: Machine, data: string, until: string) => {
    const { sha256 } = JSON.parse(await readFile(join(data, 'keys', 'dev.json'), 'utf8'));
    await machine.file('one/bans.json', JSON.stringify({ [sha256]: until }));
  };

  test('shows the requests left, as the running server says', async () => {
    const { machine, one } = await serverWithRequests();
    const { keys, stderr } = await listed(machine, [one]);
    const { created } = keys[0];
    expect(keys).toEqual([{ name: 'dev', plan: 'pro', perMinute: 300, perDay: 10_000, created, ...left }]);
    expect(stderr).toBe('');
    const csv = await machine.pets(['keys', 'list', '--csv', '--data', one]);
    expect(csv.stdout.split(/\r?\n/)).toEqual([
      'name,plan,perMinute,perDay,minuteLeft,dayLeft,bannedUntil,created',
      `dev,pro,300,10000,298,9998,,${created}`,
      '',
    ]);
  });

  test('does not confuse a key of the store with the fixed key of the server, whose chosen token is not on the disk', async () => {
    const { machine, one } = await machineWithStores();
    const env = { PETS_SERVE_KEY: 'my-own-key-0123456789', PETS_SERVE_TOKEN: 'my-own-token-0123456789' };
    const clock = manualClock();
    const { url } = await serve(machine, ['--data', one, '--plan', 'business'], { env, clock });
    await fetch(`${url}/pets`, { headers: { Authorization: `Bearer ${env.PETS_SERVE_KEY}` } });
    expect(await readFile(join(machine.home, await serverFile(one)), 'utf8')).toBe(`{"url":"${url}"}\n`);
    expect((await listed(machine, [one], { env })).keys).toMatchObject([
      { name: 'dev', minuteLeft: 300, dayLeft: 10_000 },
    ]);
    const headers = { Authorization: `Bearer ${env.PETS_SERVE_TOKEN}` };
    const { keys } = (await (await fetch(new URL('/keys', url), { headers })).json()) as {
      keys: { name: string }[];
    };
    expect(keys.map(({ name }) => name)).toEqual(['(fixed)', 'dev']);
  });

  const token = (PETS_SERVE_TOKEN: string) => ({ PETS_SERVE_TOKEN });
  const away = { baseUrl: 'http://127.0.0.1:9/v1' };
  const files = {
    'its token': ({ url, token }: { url: string; token: string }) => JSON.stringify({ url, token }),
    'no token': ({ url }: { url: string }) => JSON.stringify({ url }),
    'torn text': () => 'torn',
  };
  type Situation = {
    ends?: true;
    file?: keyof typeof files | 'removed';
    env?: string;
    profile?: typeof away;
  };
  const NONE =
    'no running server with developer tools was found for this store; if one runs on another machine, set PETS_SERVE_TOKEN';

  test.each<[Situation, string]>([
    [{ file: 'removed' }, NONE],
    [{ file: 'torn text' }, NONE],
    [{ ends: true, file: 'its token' }, 'no pets serve responds at URL"'],
    [
      { file: 'no token' },
      'PETS_SERVE_TOKEN is not set; set it to the developer token of the server at URL"',
    ],
    [{ file: 'removed', env: 'TOKEN' }, ''],
    [
      { file: 'removed', env: 'no' },
      'the server at URL does not accept the developer token; set PETS_SERVE_TOKEN to its token"',
    ],
    [{ file: 'removed', env: 'TOKEN', profile: away }, `no pets serve responds at ${away.baseUrl}"`],
  ])('finds the server, or says why it cannot: %j', async (situation, problem) => {
    const { machine, one, service } = await serverWithRequests();
    const { ends, file, env, profile } = situation;
    const path = await serverFile(one);
    if (ends) await service.end('SIGTERM');
    if (file === 'removed') await rm(join(machine.home, path));
    else if (file) await machine.file(path, files[file](service));
    if (profile) await machine.saveProfile('local', profile);
    const variables = env === undefined ? {} : token(env.replace('TOKEN', service.token));
    const { keys, stderr } = await listed(machine, [one], { env: variables });
    expect(keys).toMatchObject([problem === '' ? left : { ...unknown, bannedUntil: null }]);
    const reason = problem.replace('URL', service.url);
    if (problem === '') expect(stderr).toBe('');
    else expect(stderr).toContain(`the remaining requests are not known, because ${reason}`);
  });

  test('says that the server has no developer tools', async () => {
    const { machine, one } = await machineWithStores();
    const env = token('my-own-token-0123456789');
    const service = await serve(machine, ['--data', one, '--no-page'], { env });
    const none = `because the server at ${service.url} did not send its list of keys; it needs its developer tools (--page)`;
    expect((await listed(machine, [one], { env })).stderr).toContain(none);
  });

  test('asks the server at --base-url, and sends no token unencrypted to another machine', async () => {
    const { machine, one, service } = await serverWithRequests();
    await machine.saveProfile('local', away);
    const env = token(service.token);
    expect((await listed(machine, [one, '--base-url', service.url], { env })).keys).toMatchObject([left]);
    const args = ['keys', 'list', '--data', one, '--base-url', 'http://192.0.2.1/v1'];
    const { code, stderr } = await machine.pets(args, { env });
    expect([code, stderr]).toEqual([2, expect.stringContaining('does not use https')]);
  });

  test('sends the token only to a server that has this store', async () => {
    const { machine, one, two, service } = await serverWithRequests();
    const foreign = await scriptedServer((_request, response) => {
      response.writeHead(200).end(JSON.stringify({ status: 'ok', store: 'another' }));
    });
    await writeServer(machine, one, { url: foreign.url, token: 'pets_secret' });
    const { keys, stderr } = await listed(machine, [one], { env: token('pets_secret') });
    expect(keys).toMatchObject([unknown]);
    expect(stderr).toContain(`because the server at ${foreign.url} has another store"`);
    expect(foreign.requests.map(({ method, url, headers }) => [method, url, headers.authorization])).toEqual([
      ['GET', expect.stringContaining('/healthz'), undefined],
    ]);
    // The server of the other store has keys with the same names.
    await writeServer(machine, two, { url: service.url, token: service.token });
    expect((await listed(machine, [two])).keys).toMatchObject([unknown]);
  });

  test('asks the server of the directory, because a copy has the same store id and the same keys', async () => {
    const { machine, one } = await serverWithRequests();
    const copy = join(machine.home, 'copy');
    await cp(one, copy, { recursive: true, filter: (path) => !isLockName(basename(path)) });
    expect((await listed(machine, [copy])).keys).toMatchObject([unknown]);
    await serve(machine, ['--data', copy, '--no-profile']);
    expect((await listed(machine, [copy])).keys).toMatchObject([{ minuteLeft: 300 }]);
    await symlink(one, join(machine.home, 'link'));
    for (const path of [one, join(machine.home, 'link')])
      expect((await listed(machine, [path])).keys).toMatchObject([left]);
  });

  test('shows the ban that a server reports, and without a server the one that the store keeps', async () => {
    const { machine, one, service } = await serverWithRequests();
    await service.end('SIGTERM');
    const until = new Date(Date.now() + 100_000).toISOString();
    await ban(machine, one, until);
    expect((await listed(machine, [one])).keys).toMatchObject([{ ...unknown, bannedUntil: until }]);
    const again = await serve(machine, ['--data', one]);
    expect((await listed(machine, [one])).keys).toMatchObject([{ minuteLeft: 300, bannedUntil: until }]);
    await again.end('SIGTERM');
    await ban(machine, one, '2020-01-01T00:00:00.000Z');
    expect((await listed(machine, [one])).keys).toMatchObject([{ bannedUntil: null }]);
    const lines = await machine.pets(['keys', 'list', '--data', one]);
    expect(lines.stdout).toMatch(/^dev\tpro\t300\t10000\t\t\t\t2\S+Z\n$/);
  });

  test('fits 80 columns, and cuts nothing but names and the day of creation', async () => {
    const { machine, one, service } = await serverWithRequests();
    const add = (...args: string[]) => machine.pets(['keys', 'add', ...args, '--data', one]);
    await add('import', '--plan', 'enterprise');
    await add('the-till-next-to-the-window-of-the-shop', '--plan', 'free');
    await service.end('SIGTERM');
    await ban(machine, one, '2999-11-20T12:00:00.000Z');
    const options = { columns: 80, env: { NO_COLOR: '1' } };
    const table = async () => (await machine.pets(['keys', 'list', '--data', one], options)).stdout;
    const stopped = await table();
    expect(stopped).toMatch(/^NAME {2,}PLAN {8}LEFT\/MIN {2}LEFT\/DAY {2}BANNED UNTIL {13}CREATED\n/);
    expect(stopped).toMatch(/^dev .* 2999-11-20 12:00:00 UTC {2}\d{4}-\d\d-\d\d$/m);
    expect(stopped).toMatch(/^the-till.*… {2}free /m);
    await serve(machine, ['--data', one]);
    const running = await table();
    expect(running).toMatch(/^import +enterprise {2}unlimited {2}unlimited .*\d$/m);
    for (const line of (stopped + running).split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });
});

describe('pets keys add --save', () => {
  test('creates and saves nothing if the running server has another store', async () => {
    const { machine, one, two } = await machineWithStores();
    const { url } = await serve(machine, ['--data', one]);
    const before = await localProfile(machine);
    const add = (data: string) => machine.pets(['keys', 'add', 'till', '--save', '--data', data]);
    expect(await add(two)).toEqual({
      code: 1,
      stdout: '',
      stderr:
        `error: the server at ${url} uses a different store, not ${two}, so it would reject the key; no key was created\n` +
        `  → leave out --save; or name the store of this server with --data, or another server with --base-url\n`,
    });
    expect([await localProfile(machine), await namesOf(machine, two)]).toEqual([before, ['dev']]);
  });

  test.each<[string, number | undefined, string, string?]>([
    ['another JSON', 200, '{"status":"ok"}'],
    ['nothing in time', undefined, '', 'cannot reach URL: no response within a second'],
  ])('creates and saves nothing if the response at the URL is %s', async (_about, status, body, problem) => {
    const { machine, one } = await machineWithStores();
    const server = await scriptedServer((_request, response) => {
      if (status !== undefined) response.writeHead(status).end(body);
    });
    const url = `${new URL(server.url).origin}/shop/v1`;
    const args = ['keys', 'add', 'till', '--save', '--data', one, '--base-url', url];
    const { code, stdout, stderr } = await machine.pets(args);
    const message = problem ?? 'the server at URL does not show which store it has, so it may reject the key';
    const expected = `${message.replace('URL', url)}; no key was created`;
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining(expected)]);
    // The server gets no key.
    expect(server.requests.map((each) => [each.url, each.headers.authorization])).toEqual([
      ['/shop/healthz', undefined],
    ]);
    expect(await namesOf(machine, one)).toEqual(['dev']);
    expect(await readdir(machine.configDirectory)).toEqual(['stores']);
  });

  test('saves the key while no server is running, and shows how to start it', async () => {
    const { machine, two } = await machineWithStores();
    const port = await closedPort();
    await machine.saveProfile('local', { baseUrl: `http://127.0.0.1:${port}/v1` });
    const { code, stdout, stderr } = await machine.pets(['keys', 'add', 'till', '--save', '--data', two]);
    const next = `to profile local. Next: pets serve --port ${port} --data '${two}'\n`;
    expect([code, stderr]).toEqual([0, expect.stringContaining(next)]);
    const service = await serve(machine, ['--data', two, '--port', String(port)]);
    expect(service.key).toBe(stdout.trim());
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
  });

  test.runIf(process.platform === 'linux')('prints the key even if it cannot be saved', async () => {
    const { machine, one } = await machineWithStores();
    const env = { PETS_CONFIG_DIR: '/proc/pets' };
    const args = ['keys', 'add', 'till', '--save', '--base-url', 'http://127.0.0.1:9/v1', '--data', one];
    const { code, stdout } = await machine.pets(args, { env });
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^pets_/)]);
  });
});

test('pets keys revoke completes the names of keys, and a quota without one of its numbers has that of the plan', async () => {
  const { machine, one } = await machineWithStores();
  const quota = ['--plan', 'enterprise', '--per-day', '5', '--data', one, '--json'];
  const { stdout } = await machine.pets(['keys', 'add', 'till-1', ...quota]);
  expect(JSON.parse(stdout).quota).toEqual({ perMinute: 1_000_000_000, perDay: 5 });
  const offered = async (...words: string[]) =>
    (await machine.command(['completion', 'bash', '--', 'keys', 'revoke', ...words])).stdout;
  expect(await offered('--data', one, 't')).toBe('till-1\n:nothing\n');
  expect(await offered(`--data=${one}`, '')).toBe('dev\ntill-1\n:nothing\n');
  expect(await offered('--data', join(one, 'nothing'), '')).toBe(':nothing\n');
});
