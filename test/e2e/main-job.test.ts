import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freshMachine, type Machine, makeMachine, type Served, serve } from '../helpers/pets.ts';
import { expectDecent } from '../helpers/refusal.ts';
import { shell } from '../helpers/shell.ts';

// What people type from morning to evening, against the service that the same command runs.

/** A machine whose default profile is its own service. */
async function withService(args: readonly string[]): Promise<{ machine: Machine; service: Served }> {
  const machine = await freshMachine();
  const service = await serve(machine, args);
  expect((await machine.pets(['use', 'local'])).code).toBe(0);
  return { machine, service };
}

/** Runs a command that succeeds, and returns what it wrote to stdout. */
async function out(
  machine: Machine,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<string> {
  const ran = await machine.pets(args, { env });
  expectDecent(ran);
  expect(ran).toMatchObject({ code: 0 });
  return ran.stdout;
}

const lines = (text: string) => text.split('\n').slice(0, -1);

describe('list, add, get and orders', () => {
  let machine: Machine;
  let dispose: () => Promise<void>;
  beforeAll(async () => {
    ({ machine, dispose } = await makeMachine());
    await serve(machine, ['--ephemeral', '--seed']);
    await machine.pets(['use', 'local']);
  });
  afterAll(() => dispose());

  test('plain serve saves profile local: pets --profile local list works at once', async () => {
    expect(lines(await out(machine, ['--profile', 'local', 'list']))).toHaveLength(20);
  });

  test('the four forms of a list hold the same animals', async () => {
    const json = JSON.parse(await out(machine, ['list', '--all', '--json']));
    const ndjson = lines(await out(machine, ['list', '--all', '--ndjson'])).map((line) => JSON.parse(line));
    const rows = lines(await out(machine, ['list', '--all'])).map((line) => line.split('\t'));
    const csv = (await out(machine, ['list', '--all', '--csv'])).split('\r\n');
    expect(json.length).toBeGreaterThan(60);
    expect(ndjson).toEqual(json);
    expect(rows.map(([id]) => Number(id))).toEqual(json.map((pet: { id: number }) => pet.id));
    expect(new Set(rows.map((row) => row.length))).toEqual(new Set([4]));
    expect(csv[0]).toBe('id,name,categoryId,status');
    expect(csv.slice(1, -1).map((line) => Number(line.split(',')[0]))).toEqual(
      rows.map(([id]) => Number(id)),
    );
  });

  test('--limit is the page, --status filters, and a full page says that there are more', async () => {
    const { stdout, stderr } = await machine.pets(['list', '--limit', '3', '--status', 'sold', '--json']);
    expect(JSON.parse(stdout)).toHaveLength(3);
    expect(new Set(JSON.parse(stdout).map((pet: { status: string }) => pet.status))).toEqual(
      new Set(['sold']),
    );
    expect(JSON.parse(stderr)).toEqual({ notice: '3 shown, there are more: --all' });
    const all = JSON.parse(await out(machine, ['list', '--all', '--limit', '7', '--json']));
    expect(all).toEqual(JSON.parse(await out(machine, ['list', '--all', '--json'])));
  });

  test('an animal is added, shown, and found by its id', async () => {
    const added = JSON.parse(await out(machine, ['add', 'Fürst Pückler 🐈', '--category', '-3', '--json']));
    expect(added).toEqual({
      id: expect.any(Number),
      name: 'Fürst Pückler 🐈',
      categoryId: -3,
      status: 'available',
    });
    expect(JSON.parse(await out(machine, ['get', String(added.id), '--json']))).toEqual(added);
    expect(await out(machine, ['get', String(added.id)])).toBe(
      `${added.id}\tFürst Pückler 🐈\t-3\tavailable\n`,
    );
    const text = await out(machine, ['add', 'a\tb\nc\\d', '--category', '1', '--status', 'pending']);
    expect(text.split('\t').slice(1).join('\t')).toBe('a\\tb\\nc\\\\d\t1\tpending\n');
  });

  test('--dry-run adds nothing', async () => {
    const before = await out(machine, ['list', '--all', '--ndjson']);
    const shown = await out(machine, ['add', 'Ghost', '--category', '1', '--dry-run', '--json']);
    expect(JSON.parse(shown)).toEqual({ name: 'Ghost', categoryId: 1 });
    expect(await out(machine, ['list', '--all', '--ndjson'])).toBe(before);
  });

  test('the same --idempotency-key twice adds one animal', async () => {
    const args = ['add', 'Once', '--category', '1', '--idempotency-key', 'till 1/7', '--json'];
    expect(await out(machine, args)).toBe(await out(machine, args));
    const other = await machine.pets(args.with(1, 'Twice'));
    expect(other).toMatchObject({ code: 1, stdout: '' });
    expect(JSON.parse(other.stderr).error).toMatchObject({ code: 'idempotency_mismatch', status: 422 });
  });

  test('several ids: those found are shown in order, and a missing one makes exit code 3', async () => {
    const found = JSON.parse(await out(machine, ['get', '3', '1', '--json']));
    expect(found.map((pet: { id: number }) => pet.id)).toEqual([3, 1]);
    const ran = await machine.pets(['get', '2', '999999', '1', '--json']);
    expect(ran.code).toBe(3);
    expect(JSON.parse(ran.stdout).map((pet: { id: number }) => pet.id)).toEqual([2, 1]);
    expect(ran.stderr).toContain('no animal with id 999999');
    expect(await machine.pets(['get', '999999'])).toMatchObject({ code: 3, stdout: '' });
  });

  test('get says once that the operation goes away, and what to use instead', async () => {
    // On this day nobody has told it yet.
    const env = { XDG_STATE_HOME: join(machine.home, 'state') };
    const { stderr } = await machine.pets(['get', '1', '2'], { env });
    expect(stderr.match(/5 December 2030/g)).toHaveLength(1);
    expect(stderr).toContain('pets list --status');
    expect((await machine.pets(['get', '1'], { env })).stderr).toBe('');
  });

  test('orders are JSON, or rows with the same fields', async () => {
    const orders = JSON.parse(await out(machine, ['orders', '--json']));
    const rows = lines(await out(machine, ['orders']));
    expect(rows).toHaveLength(orders.length);
    expect(rows[0]?.split('\t')[0]).toBe(String(orders[0].id));
  });
});

test('login, profiles, use and logout', async () => {
  const machine = await freshMachine();
  const service = await serve(machine, ['--ephemeral', '--no-profile']);
  const login = await machine.pets(
    ['login', '--profile', 'staging', '--with-key', '--base-url', service.url],
    {
      stdin: `${service.key}\n`,
    },
  );
  expect(login).toMatchObject({ code: 0, stdout: '' });
  expect(login.stderr).not.toContain(service.key);
  const path = join(machine.configDirectory, 'staging.json');
  expect(JSON.parse(await readFile(path, 'utf8'))).toEqual({ baseUrl: service.url, key: service.key });
  await out(machine, ['use', 'staging']);
  expect(await out(machine, ['list', '--json'])).toBe('[]\n');
  const profiles = await out(machine, ['profiles', '--check', '--json']);
  expect(profiles).not.toContain(service.key);
  expect(JSON.parse(profiles)).toContainEqual({
    profile: 'staging',
    baseUrl: service.url,
    key: `…${service.key.slice(-4)}`,
    default: true,
    check: expect.objectContaining({ ok: true, limit: 300 }),
  });
  await out(machine, ['logout']);
  expect(JSON.parse(await readFile(path, 'utf8'))).toEqual({ baseUrl: service.url });
  expect(await machine.pets(['list'])).toMatchObject({ code: 4 });
});

describe('serve -- CMD', () => {
  const node = (script: string) => ['--', process.execPath, '-e', script];

  test.each([
    ['process.exit(0)', 0],
    ['process.exit(7)', 7],
    ['process.kill(process.pid, "SIGKILL")', 137],
    ['process.kill(process.pid, "SIGTERM")', 143],
  ])('passes on how it ended: %s', async (script, code) => {
    const machine = await freshMachine();
    expect(await machine.pets(['serve', '--ephemeral', ...node(script)])).toMatchObject({ code, stdout: '' });
  });

  test('gives it the service and a key that is good for this run, and leaves profile local alone', async () => {
    const machine = await freshMachine();
    const profile = { baseUrl: 'http://127.0.0.1:9/v1', key: 'mine' };
    await machine.saveProfile('local', profile);
    const script = `const {PETS_BASE_URL:url,PETS_API_KEY:key}=process.env;
      fetch(url+'/pets?limit=1',{headers:{Authorization:'Bearer '+key}})
        .then(async r=>console.log(r.status,r.headers.get('x-ratelimit-limit'),(await r.json()).length))`;
    const ran = await machine.pets(['serve', '--ephemeral', '--seed', '--plan', 'free', ...node(script)]);
    expect(ran).toMatchObject({ code: 0, stdout: '200 60 1\n' });
    const saved = await readFile(join(machine.configDirectory, 'local.json'), 'utf8');
    expect(JSON.parse(saved)).toEqual(profile);
  });

  test('an ephemeral store is gone at the end', async () => {
    const machine = await freshMachine();
    const stores = async () => (await readdir(machine.home)).filter((name) => name.startsWith('pets-'));
    const script = "console.log(require('fs').readdirSync(process.env.TMPDIR).join())";
    const ran = await machine.pets(['serve', '--ephemeral', ...node(script)]);
    expect(ran.stdout).toMatch(/pets-\w+/);
    expect(await stores()).toEqual([]);
    const service = await serve(machine, ['--ephemeral']);
    expect(await stores()).toHaveLength(1);
    await service.end('SIGTERM');
    expect(await stores()).toEqual([]);
  });

  test('has stdin and stdout for itself', async () => {
    const machine = await freshMachine();
    const ran = await machine.pets(['serve', '--ephemeral', '--json', '--', 'cat'], { stdin: 'through\n' });
    expect(ran).toMatchObject({ code: 0, stdout: 'through\n' });
  });
});

describe('what was acknowledged stays', () => {
  test('through kill -9: every added animal is there after the next start', async () => {
    const { machine, service } = await withService(['--data', 'store']);
    const added = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        out(machine, ['add', `Rex ${i}`, '--category', String(i), '--json']),
      ),
    );
    await service.end('SIGKILL');
    const again = await serve(machine, ['--data', 'store']);
    expect(again.key).toBe(service.key);
    const list = lines(await out(machine, ['list', '--all', '--ndjson']));
    expect(list.toSorted()).toEqual(added.map((text) => text.trimEnd()).toSorted());
  });

  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s ends the service with 0 and a `stopped` event',
    async (signal) => {
      const machine = await freshMachine();
      const service = await serve(machine, ['--data', 'store']);
      let last = '';
      service.child.stdout?.on('data', (text) => {
        last += text;
      });
      expect(await service.end(signal)).toEqual({ code: 0, signal: null });
      expect(JSON.parse(lines(last).at(-1) ?? '')).toEqual({ event: 'stopped' });
      expect(service.stderr()).toBe('');
    },
  );

  test.each(['9223372036854775807', '-9223372036854775808', '9007199254740993'])(
    'categoryId %s, digit for digit, in every form and after a restart',
    async (big) => {
      const { machine, service } = await withService(['--data', 'store']);
      const pet = `{"id":1,"name":"Rex","categoryId":${big},"status":"available"}`;
      expect(await out(machine, ['add', 'Rex', '--category', big, '--json'])).toBe(`${pet}\n`);
      const everywhere = async () => {
        expect(await out(machine, ['list', '--json'])).toBe(`[${pet}]\n`);
        expect(await out(machine, ['list', '--ndjson'])).toBe(`${pet}\n`);
        expect(await out(machine, ['list'])).toBe(`1\tRex\t${big}\tavailable\n`);
        expect(await out(machine, ['list', '--csv'])).toContain(`\r\n1,Rex,${big},available\r\n`);
        expect(await out(machine, ['get', '1', '--json'])).toBe(`${pet}\n`);
      };
      await everywhere();
      await service.end('SIGTERM');
      expect(await readFile(join(machine.home, 'store', 'journal.ndjson'), 'utf8')).toContain(pet);
      await serve(machine, ['--data', 'store']);
      await everywhere();
    },
  );

  test.each(['ndjson', 'csv'])(
    'a list as %s seeds another store with the same list, byte for byte',
    async (form) => {
      const { machine, service } = await withService(['--data', 'first']);
      const names = [
        '=1+1',
        "'=x",
        "''+",
        "'",
        '-',
        '@a',
        '\tt',
        '\rr',
        '"a,b"',
        'two\nlines',
        'a\r\nb',
        '🐈‍⬛',
        'é\u0301',
      ];
      // A name of nothing is refused as an argument, and taken from a file.
      const blank = ['', ' '];
      await Promise.all(
        names.map((name, i) =>
          out(machine, ['add', '--category', String(10n ** 18n + BigInt(i)), '--', name]),
        ),
      );
      const rows = blank.map((name) => ({ name, categoryId: 1 }));
      await writeFile(join(machine.home, 'blank.json'), JSON.stringify(rows));
      await out(machine, ['add', '--from', 'blank.json']);
      const before = await out(machine, ['list', '--all', `--${form}`]);
      await service.end('SIGTERM');
      await writeFile(join(machine.home, `animals.${form}`), before);
      await serve(machine, ['--data', 'second', '--seed', `animals.${form}`]);
      expect(await out(machine, ['list', '--all', `--${form}`])).toBe(before);
      const after = JSON.parse(await out(machine, ['list', '--all', '--json']));
      expect(after.map((pet: { name: string }) => pet.name).toSorted()).toEqual(
        [...names, ...blank].toSorted(),
      );
    },
  );
});

test('files are 0600 and directories 0700, also under umask 0', async () => {
  const machine = await freshMachine();
  const command = `umask 0
    "$NODE" "$PETS" serve --json --port 0 --data store --seed > started &
    until [ -s started ]; do sleep 0.02; done
    pets keys add till --plan free --data store >/dev/null && pets use staging &&
      echo k | pets login --with-key --no-verify --base-url https://api.example.com/v1`;
  const ran = shell(machine, `${command}; code=$?; kill $!; wait; exit $code`);
  expect(await ran).toMatchObject({ code: 0 });
  expect(await readdir(join(machine.configDirectory, 'stores'))).toHaveLength(1);
  const modes: Record<string, string> = {};
  for (const root of ['store', join('.config', 'pets')]) {
    const below = await readdir(join(machine.home, root), { recursive: true });
    for (const name of ['', ...below]) {
      const stats = await stat(join(machine.home, root, name));
      const mode = (stats.mode & 0o777).toString(8);
      if (mode !== (stats.isDirectory() ? '700' : '600')) modes[join(root, name)] = mode;
    }
  }
  expect(modes).toEqual({});
});

test('a key that is added works at the running server, and one that is revoked is refused within a second', async () => {
  const { machine, service } = await withService(['--data', 'store']);
  const added = JSON.parse(
    await out(machine, ['keys', 'add', 'till', '--plan', 'free', '--data', 'store', '--json']),
  );
  expect(added).toMatchObject({ name: 'till', plan: 'free', key: expect.stringMatching(/^pets_/) });
  const status = async () => {
    const headers = { Authorization: `Bearer ${added.key}` };
    return (await fetch(`${service.url}/pets?limit=1`, { headers })).status;
  };
  expect(await status()).toBe(200);
  const listed = await out(machine, ['keys', 'list', '--data', 'store', '--json']);
  expect(JSON.parse(listed).map((key: { name: string }) => key.name)).toEqual(['dev', 'till']);
  expect(listed).not.toContain(added.key);
  await out(machine, ['keys', 'revoke', 'till', '--data', 'store']);
  const revoked = Date.now();
  while ((await status()) !== 401) {
    expect(Date.now() - revoked).toBeLessThan(1_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

test('a script gets data alone on stdout: no colour, no header, no words', async () => {
  const { machine } = await withService(['--ephemeral', '--seed']);
  const ran = await shell(
    machine,
    'pets list --status sold | cut -f 2 | head -n 1; pets list --all --json | cat',
  );
  expect(ran.code).toBe(0);
  const [first = '', json = ''] = ran.stdout.split('\n');
  expect(first).toMatch(/^\S/);
  expect(JSON.parse(json).length).toBeGreaterThan(60);
  expect(ran.stdout).not.toContain('\u001b');
});
