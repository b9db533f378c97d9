import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';
import { hasTerminal } from '../helpers/readme-terminal.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { shell } from '../helpers/shell.ts';
import { onTerminal } from '../helpers/terminal.ts';

// What a script relies on does not depend on where it runs.

async function withService(): Promise<{ machine: Machine; url: string; key: string }> {
  const machine = await freshMachine();
  const { url, key } = await serve(machine, ['--ephemeral', '--seed']);
  return { machine, url, key };
}

describe('the bytes on stdout are the same', () => {
  test.each([
    ['LANG=C', { LANG: 'C', LC_ALL: 'C' }],
    ['a UTF-8 locale', { LANG: 'de_DE.UTF-8' }],
    ['TERM=dumb', { TERM: 'dumb' }],
    ['a width in the environment', { COLUMNS: '20', LINES: '5' }],
    ['CI', { CI: 'true', GITHUB_ACTIONS: 'true' }],
    ['another time zone', { TZ: 'Pacific/Auckland' }],
  ])('with %s', async (_name, env) => {
    const { machine } = await withService();
    for (const form of [[], ['--json'], ['--ndjson'], ['--csv']]) {
      const args = ['list', '--profile', 'local', '--all', ...form];
      const plain = await machine.pets(args);
      expect(plain.stdout).toContain('Fürst Pückler');
      expect(await machine.pets(args, { env })).toEqual(plain);
    }
  });

  test.each(['', '< /dev/null', '<&-', '| cat', '2> /dev/null', '--no-input'])('with %j', async (how) => {
    const { machine } = await withService();
    const plain = await machine.pets(['list', '--profile', 'local', '--json']);
    const { code, stdout } = await shell(machine, `pets list --profile local --json ${how}`);
    expect([code, stdout]).toEqual([0, plain.stdout]);
  });
});

describe('line ends of Windows', () => {
  test('in a key that is piped in', async () => {
    const { machine, url, key } = await withService();
    const ran = await machine.pets(['login', '--with-key', '--base-url', url], { stdin: `${key}\r\n` });
    expect(ran.code).toBe(0);
    expect((await machine.pets(['list', '--limit', '1'])).code).toBe(0);
  });

  test('in a file of animals, with a byte order mark', async () => {
    const { machine } = await withService();
    const rows = '\ufeffname,category,status\r\nRex,3,sold\r\n"Lady\r\nBella",1,\r\n';
    await writeFile(join(machine.home, 'animals.csv'), rows);
    const ran = await machine.pets(['add', '--from', 'animals.csv', '--profile', 'local', '--json']);
    expect(ran.code).toBe(0);
    const pets = JSON.parse(ran.stdout).map(({ pet }: { pet: object }) => pet);
    expect(pets).toMatchObject([
      { name: 'Rex', categoryId: 3, status: 'sold' },
      { name: 'Lady\r\nBella', categoryId: 1, status: 'available' },
    ]);
  });
});

test('nothing is asked where nobody can answer: no input at all is an error that says what to do', async () => {
  const machine = await freshMachine();
  for (const line of ['pets login < /dev/null', 'pets login --no-input']) {
    const { code, stdout, stderr } = await shell(machine, line, {
      env: { PETS_API_KEY: 'k', PETS_BASE_URL: 'http://127.0.0.1:9/v1' },
    });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^error: .+\n {2}→ .+\n$/s);
  }
});

describe.skipIf(!hasTerminal())('on a terminal', () => {
  test.each([
    [{ TERM: 'dumb' }, []],
    [{ NO_COLOR: '1' }, []],
    [{}, ['--color', 'never']],
  ])('%j %j: not one escape sequence', async (env, args) => {
    const { machine } = await withService();
    const terminal = onTerminal(machine, ['list', '--profile', 'local', ...args], env);
    expect(await terminal.ended()).toBe(0);
    expect(terminal.written()).toContain('Fürst Pückler');
    expect(terminal.written()).not.toContain('\x1b');
  });
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s ends a wait with 130, and an error is the last line',
  async (signal) => {
    const refusal = { code: 'rate_limited', message: 'slow down', status: 429 };
    const server = await scriptedServer((_request, response) =>
      reply(response, 429, refusal, { 'Retry-After': '60' }),
    );
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k2mX' });
    const child = machine.start(['list', '--json']);
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text) => {
      if (stderr === '') child.kill(signal);
      stderr += text;
    });
    const [code] = await once(child, 'close');
    expect(code).toBe(130);
    expect(JSON.parse(stderr.trim().split('\n').at(-1) ?? '').error).toMatchObject({ code: 'interrupted' });
  },
);

test('who looks at the quota again and again is not banned for it: once a minute the service is asked', async () => {
  const refusal = { code: 'rate_limited', message: 'slow down', status: 429 };
  const server = await scriptedServer((_request, response) =>
    reply(response, 429, refusal, { 'Retry-After': '3600' }),
  );
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k2mX' });
  for (let times = 0; times < 6; times++) {
    const { code, stdout } = await machine.pets(['profiles', '--check', '--profile', 'prod', '--json']);
    const [{ check }] = JSON.parse(stdout);
    expect([code, check.ok, check.code, check.remaining]).toEqual([0, false, 'rate_limited', 0]);
    expect(Date.parse(check.reset)).toBeGreaterThan(Date.now());
  }
  // The first, before anything was known, and one that asks anew.
  expect(server.requests).toHaveLength(2);
});

test('a key for a repetition works on a machine that does not know the service: it is asked before anything can be lost', async () => {
  const honours = { 'Idempotency-Supported': 'true' };
  const server = await scriptedServer((request, response) =>
    request.method === 'GET' ? reply(response, 200, [], honours) : request.socket.destroy(),
  );
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k2mX' });
  const add = ['add', 'Rex', '--category', '3', '--idempotency-key', 'job-7', '--no-retry', '--json'];
  const { code, stderr } = await machine.pets(add);
  const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
  expect([code, error.code, error.idempotencyKey]).toEqual([6, 'outcome_unknown', 'job-7']);
  expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'POST']);
});
