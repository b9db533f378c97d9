import { once } from 'node:events';
import { readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { manualClock } from '../helpers/clock.ts';
import { freshMachine, type Machine, type ProgramOptions, serve } from '../helpers/pets.ts';
import { scriptedServer } from '../helpers/scripted-server.ts';

/** A machine with two stores, `one` and `my two`, and nothing else. */
async function machineWithStores() {
  const machine = await freshMachine();
  const [one, two] = [join(machine.home, 'one'), join(machine.home, 'my two')];
  for (const store of [one, two])
    await (await serve(machine, ['--no-profile', '--data', store])).end('SIGTERM');
  return { machine, one, two };
}

const namesOf = async (machine: Machine, data: string): Promise<string[]> => {
  const { stdout } = await machine.pets(['keys', 'list', '--json', '--data', data]);
  return JSON.parse(stdout).map(({ name }: { name: string }) => name);
};

const localProfile = async ({ configDirectory }: Machine) =>
  JSON.parse(await readFile(join(configDirectory, 'local.json'), 'utf8'));

describe('without a store', () => {
  test.each([
    [['keys', 'list']],
    [['keys', 'add', 'till', '--plan', 'free']],
    [['keys', 'add', 'till', '--save']],
    [['keys', 'revoke', 'till']],
  ])('pets %s says so, shows how to create one, and creates nothing', async (command) => {
    const machine = await freshMachine();
    const [store, standard] = ['my store', '.local/share/pets/store'].map((name) => join(machine.home, name));
    for (const [args, path, next] of [
      [['--data', store ?? ''], store, `pets serve --data '${store}'`],
      [[], standard, 'pets serve'],
    ] as const) {
      const { code, stdout, stderr } = await machine.pets([...command, ...args]);
      expect([code, stdout, stderr]).toEqual([
        1,
        '',
        `error: there is no store in ${path}\n  → create one: ${next}\n`,
      ]);
    }
    expect(await readdir(machine.home)).toEqual([]);
  });

  test('an empty directory is no store either, and stays empty', async () => {
    const machine = await freshMachine();
    await machine.file('store/x', '');
    const store = join(machine.home, 'store');
    const { code, stderr } = await machine.pets(['keys', 'add', 'till', '--plan', 'free', '--data', store]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`there is no store in ${store}\n`)]);
    expect(await readdir(store)).toEqual(['x']);
  });
});

describe('a hint of pets keys', () => {
  test('repeats --data if it was given', async () => {
    const { machine, two } = await machineWithStores();
    const { stderr } = await machine.pets(['keys', 'list', '--data', two]);
    expect(stderr).not.toContain('Create one');
    await machine.pets(['keys', 'revoke', 'dev', '--data', two]);
    const listed = await machine.pets(['keys', 'list', '--data', two]);
    expect(listed.stderr).toContain(`Create one: pets keys add <name> --data '${two}'\n`);
    const fromVariable = await machine.pets(['keys', 'list'], { env: { PETS_DATA: two } });
    expect(fromVariable.stderr).toContain('Create one: pets keys add <name>\n');
  });

  test('never contains a password', async () => {
    const machine = await freshMachine();
    const url = 'postgres://pets:canary@127.0.0.1:9/pets';
    for (const command of ['list', 'revoke x', 'add x --plan free']) {
      const { stdout, stderr } = await machine.pets(['keys', ...command.split(' '), '--data', url]);
      expect(stdout + stderr).not.toContain('canary');
    }
  });
});

describe('pets keys list', () => {
  const UNKNOWN = 'the requests left are not known, because';

  const listed = async (machine: Machine, data: string, options?: ProgramOptions) => {
    const { stdout, stderr } = await machine.pets(['keys', 'list', '--json', '--data', data], options);
    return { keys: JSON.parse(stdout), stderr };
  };

  const unknown = { minuteLeft: null, dayLeft: null };

  /** A server with the store `one`, to which two requests were sent. */
  async function serverWithRequests() {
    const { machine, one, two } = await machineWithStores();
    // The clock stands still, so that no new minute begins.
    const service = await serve(machine, ['--data', one], { clock: manualClock() });
    const get = () => fetch(`${service.url}/pets`, { headers: { Authorization: `Bearer ${service.key}` } });
    await get();
    await get();
    return { machine, one, two, service, left: { minuteLeft: 298, dayLeft: 9_998, bannedUntil: null } };
  }

  /** The path, from the home directory, of the file in which `pets serve` leaves its address. */
  async function serverFile(data: string): Promise<string> {
    const [header = ''] = (await readFile(join(data, 'journal.ndjson'), 'utf8')).split('\n');
    return `.config/pets/stores/${JSON.parse(header).id}.server`;
  }

  const writeServer = async (machine: Machine, data: string, server: { url: string; token: string }) =>
    machine.file(await serverFile(data), JSON.stringify(server));

  const forgetServer = async (machine: Machine, data: string) =>
    rm(join(machine.home, await serverFile(data)), { force: true });

  test('shows the requests left, as the running server says', async () => {
    const { machine, one, left } = await serverWithRequests();
    const { keys, stderr } = await listed(machine, one);
    expect(keys).toEqual([
      { name: 'dev', plan: 'pro', perMinute: 300, perDay: 10_000, created: expect.any(String), ...left },
    ]);
    expect(stderr).toBe('');
    const { created } = keys[0];
    const csv = await machine.pets(['keys', 'list', '--csv', '--data', one]);
    expect(csv.stdout.split(/\r?\n/)).toEqual([
      'name,plan,perMinute,perDay,minuteLeft,dayLeft,bannedUntil,created',
      `dev,pro,300,10000,298,9998,,${created}`,
      '',
    ]);
    const table = await machine.pets(['keys', 'list', '--data', one], {
      columns: 100,
      env: { NO_COLOR: '1' },
    });
    expect(table.stdout).toMatch(
      /^NAME +PLAN +LEFT\/MIN +LEFT\/DAY +BANNED UNTIL +CREATED\ndev +pro +298 +9998 +2/,
    );
  });

  test('does not confuse a key of the store with the fixed key of the server', async () => {
    const { machine, one } = await machineWithStores();
    const env = { PETS_SERVE_KEY: 'my-own-key-0123456789', PETS_SERVE_TOKEN: 'my-own-token-0123456789' };
    const clock = manualClock();
    const service = await serve(machine, ['--data', one, '--plan', 'business'], { env, clock });
    await fetch(`${service.url}/pets`, { headers: { Authorization: `Bearer ${env.PETS_SERVE_KEY}` } });
    // The token that the user has chosen is not written to the disk.
    expect(await readFile(join(machine.home, await serverFile(one)), 'utf8')).toBe(
      `{"url":"${service.url}"}\n`,
    );
    await machine.saveProfile('local', { baseUrl: 'http://127.0.0.1:9/v1' });
    const wrong = { PETS_SERVE_TOKEN: 'another-token-0123456789' };
    expect((await listed(machine, one, { env: wrong })).stderr).toContain(
      `${UNKNOWN} the server at ${service.url} has another developer token than PETS_SERVE_TOKEN"`,
    );
    expect((await listed(machine, one)).stderr).toContain(
      `${UNKNOWN} PETS_SERVE_TOKEN is not set to the developer token of the server at ${service.url}`,
    );
    const { keys } = await listed(machine, one, { env });
    expect(keys).toMatchObject([{ name: 'dev', minuteLeft: 300, dayLeft: 10_000 }]);
    const shown = await fetch(new URL('/keys', service.url), {
      headers: { Authorization: `Bearer ${env.PETS_SERVE_TOKEN}` },
    });
    const { keys: all } = (await shown.json()) as { keys: { name: string }[] };
    expect(all.map(({ name }) => name)).toEqual(['(fixed)', 'dev']);
  });

  test('asks the server of profile local, or at --base-url, with the token in PETS_SERVE_TOKEN', async () => {
    const { machine, one, service, left } = await serverWithRequests();
    await forgetServer(machine, one);
    const env = { PETS_SERVE_TOKEN: service.token };
    expect((await listed(machine, one, { env })).keys).toMatchObject([left]);
    await machine.saveProfile('local', { baseUrl: 'http://127.0.0.1:9/v1' });
    expect(await listed(machine, one, { env })).toMatchObject({
      keys: [unknown],
      stderr: `{"notice":"${UNKNOWN} no pets serve responds at http://127.0.0.1:9/v1. Start it: pets serve --data ${one}"}\n`,
    });
    const { stdout } = await machine.pets(
      ['keys', 'list', '--json', '--data', one, '--base-url', service.url],
      { env },
    );
    expect(JSON.parse(stdout)).toMatchObject([left]);
  });

  test('shows no requests left, and why, without a token, with a wrong one and if the server has stopped', async () => {
    const { machine, one, service } = await serverWithRequests();
    await forgetServer(machine, one);
    const none = (reason: string) => ({
      keys: [{ ...unknown, bannedUntil: null }],
      stderr: expect.stringContaining(`${UNKNOWN} ${reason}`),
    });
    const noServer = none(
      'no running server of this store shows them; to ask one on another machine, set PETS_',
    );
    expect(await listed(machine, one)).toMatchObject(noServer);
    expect(await listed(machine, one, { env: { PETS_SERVE_TOKEN: 'pets_wrong' } })).toMatchObject(
      none(`the server at ${service.url} has another developer token than PETS_SERVE_TOKEN"`),
    );
    await machine.file(await serverFile(one), 'torn');
    expect(await listed(machine, one)).toMatchObject(noServer);
    await service.end('SIGTERM');
    expect(await listed(machine, one)).toMatchObject(noServer);
    // As after kill -9.
    await writeServer(machine, one, { url: service.url, token: service.token });
    expect(await listed(machine, one)).toMatchObject(
      none(`no pets serve responds at ${service.url}. Start it: pets serve --data`),
    );
    const table = await machine.pets(['keys', 'list', '--data', one]);
    expect(table.stdout).toMatch(/^dev\tpro\t300\t10000\t\t\t\t2\S+Z\n$/);
  });

  test('shows the ban that a server reports, and without a server the one that the store keeps', async () => {
    const { machine, one, service } = await serverWithRequests();
    await service.end('SIGTERM');
    const { sha256 } = JSON.parse(await readFile(join(one, 'keys', 'dev.json'), 'utf8'));
    const until = new Date(Date.now() + 100_000).toISOString();
    const ban = async (end: string) => machine.file('one/bans.json', JSON.stringify({ [sha256]: end }));
    await ban(until);
    expect((await listed(machine, one)).keys).toMatchObject([{ ...unknown, bannedUntil: until }]);
    const again = await serve(machine, ['--data', one]);
    const env = { PETS_SERVE_TOKEN: again.token };
    expect((await listed(machine, one, { env })).keys).toMatchObject([
      { minuteLeft: 300, bannedUntil: until },
    ]);
    await again.end('SIGTERM');
    await ban('2020-01-01T00:00:00.000Z');
    expect((await listed(machine, one)).keys).toMatchObject([{ bannedUntil: null }]);
  });

  test('sends the token only to a server that has this store', async () => {
    const { machine, one, two, service } = await serverWithRequests();
    const foreign = await scriptedServer((_request, response) => {
      response.writeHead(200).end(JSON.stringify({ status: 'ok', store: 'another' }));
    });
    await machine.saveProfile('local', { baseUrl: foreign.url });
    await writeServer(machine, one, { url: foreign.url, token: 'pets_secret' });
    const env = { PETS_SERVE_TOKEN: 'pets_secret' };
    const { keys, stderr } = await listed(machine, one, { env });
    expect(keys).toMatchObject([unknown]);
    expect(stderr).toContain(`${UNKNOWN} the server at ${foreign.url} has another store"`);
    expect(foreign.requests.map(({ method, url, headers }) => [method, url, headers.authorization])).toEqual([
      ['GET', expect.stringContaining('/healthz'), undefined],
      ['GET', expect.stringContaining('/healthz'), undefined],
    ]);
    // The server of the other store has keys with the same names.
    await writeServer(machine, two, { url: service.url, token: service.token });
    expect((await listed(machine, two)).keys).toMatchObject([unknown]);
  });

  test('says that the server does not show all keys', async () => {
    const { machine, one } = await machineWithStores();
    const store = (await serverFile(one)).split(/[/.]/).at(-2);
    const server = await scriptedServer(({ url }, response) => {
      const body = url === '/healthz' ? { status: 'ok', store } : { keys: [], total: 1_001 };
      response.writeHead(200).end(JSON.stringify(body));
    });
    await writeServer(machine, one, { url: server.url, token: 'pets_secret' });
    expect((await listed(machine, one)).stderr).toContain(`${UNKNOWN} the server shows only 0 of 1001 keys"`);
  });

  test('says that the server has no developer tools', async () => {
    const { machine, one } = await machineWithStores();
    const env = { PETS_SERVE_TOKEN: 'my-own-token-0123456789' };
    const { url } = await serve(machine, ['--data', one, '--no-page'], { env });
    expect((await listed(machine, one, { env })).stderr).toContain(
      `${UNKNOWN} the server at ${url} has no developer tools; it has them with --page"`,
    );
  });

  test('fits 80 columns, and cuts nothing but names and the day of creation', async () => {
    const { machine, one, service } = await serverWithRequests();
    const add = (...args: string[]) => machine.pets(['keys', 'add', ...args, '--data', one]);
    await add('import', '--plan', 'enterprise');
    await add('the-till-next-to-the-window-of-the-shop', '--plan', 'free');
    await service.end('SIGTERM');
    const { sha256 } = JSON.parse(await readFile(join(one, 'keys', 'dev.json'), 'utf8'));
    const until = '2999-11-20T12:00:00.000Z';
    await machine.file('one/bans.json', JSON.stringify({ [sha256]: until }));
    const env = { NO_COLOR: '1' };
    const table = async () =>
      (await machine.pets(['keys', 'list', '--data', one], { columns: 80, env })).stdout;
    const stopped = await table();
    expect(stopped).toMatch(/^NAME {2,}PLAN {8}LEFT\/MIN {2}LEFT\/DAY {2}BANNED UNTIL {13}CREATED\n/);
    expect(stopped).toMatch(/^dev .* 2999-11-20 12:00:00 UTC {2}\d{4}-\d\d-\d\d$/m);
    expect(stopped).toMatch(/^the-till.*… {2}free /m);
    // The numbers of plan enterprise leave no room for the day.
    await serve(machine, ['--data', one]);
    const running = await table();
    expect(running).toMatch(/^NAME {2,}PLAN {10}LEFT\/MIN {7}LEFT\/DAY {2}BANNED UNTIL\n/);
    expect(running).toMatch(/^import +enterprise {2}1000000000 {2}1000000000000$/m);
    for (const line of (stopped + running).split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  test('sends no token unencrypted to another machine', async () => {
    const { machine, one } = await machineWithStores();
    const args = ['keys', 'list', '--data', one, '--base-url', 'http://192.0.2.1/v1'];
    const { code, stderr } = await machine.pets(args, { env: { PETS_SERVE_TOKEN: 'pets_secret' } });
    expect([code, stderr]).toEqual([2, expect.stringContaining('does not use https')]);
  });
});

describe('pets keys add --save', () => {
  test('saves the key of the store that the running server has', async () => {
    const { machine, one } = await machineWithStores();
    const { url } = await serve(machine, ['--data', one]);
    const { code, stdout, stderr } = await machine.pets(['keys', 'add', 'till', '--save', '--data', one]);
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining(`saved the key for ${url} to profile local. Next: pets --profile local list\n`),
    ]);
    expect(await localProfile(machine)).toEqual({ baseUrl: url, key: stdout.trim() });
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
  });

  test('creates and saves nothing if the server has another store', async () => {
    const { machine, one, two } = await machineWithStores();
    const { url } = await serve(machine, ['--data', one]);
    const before = await localProfile(machine);
    const { code, stdout, stderr } = await machine.pets(['keys', 'add', 'till', '--save', '--data', two]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      `error: the server at ${url} has another store than ${two}; no key was created\n` +
        `  → use --data with that server's store, or --base-url with the URL of a server of this store\n`,
    );
    expect(await localProfile(machine)).toEqual(before);
    expect(await namesOf(machine, two)).toEqual(['dev']);
  });

  test.each([
    ['no JSON', 200, '<html>'],
    ['another JSON', 200, '{"status":"ok"}'],
    ['a server that starts', 503, '{"code":"starting","message":"The service is starting","status":503}'],
    ['nothing in time', undefined, ''],
  ])('creates and saves nothing if the response at the URL is %s', async (_about, status, body) => {
    const { machine, one } = await machineWithStores();
    const paths: string[] = [];
    const server = createServer((request, response) => {
      paths.push(`${request.url} ${request.headers.authorization}`);
      if (status !== undefined) response.writeHead(status).end(body);
    }).listen(0, '127.0.0.1');
    onTestFinished(() => server.closeAllConnections());
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/shop/v1`;
    const args = ['keys', 'add', 'till', '--save', '--data', one, '--base-url', url];
    const { code, stdout, stderr } = await machine.pets(args);
    expect([code, stdout, stderr]).toEqual([
      1,
      '',
      expect.stringContaining(`the server at ${url} does not show which store it has; no key was created`),
    ]);
    // The server gets no key.
    expect(paths).toEqual(['/shop/healthz undefined']);
    expect(await namesOf(machine, one)).toEqual(['dev']);
    expect(await readdir(machine.configDirectory)).toEqual(['stores']);
  });

  test('saves the key while no server is running, and shows how to start it', async () => {
    const { machine, two } = await machineWithStores();
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await machine.saveProfile('local', { baseUrl: `http://127.0.0.1:${port}/v1` });
    const { code, stdout, stderr } = await machine.pets(['keys', 'add', 'till', '--save', '--data', two]);
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining(`to profile local. Next: pets serve --data '${two}'\n`),
    ]);
    const service = await serve(machine, ['--data', two, '--port', String(port)]);
    expect(service.key).toBe(stdout.trim());
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
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
