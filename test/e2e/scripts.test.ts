import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freshMachine, type Machine, makeMachine, serve } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

// What scripts rely on does not depend on the environment that they run in.

let machine: Machine;
let dispose: () => Promise<void>;
beforeAll(async () => {
  ({ machine, dispose } = await makeMachine());
  await serve(machine, ['--ephemeral', '--seed']);
});
afterAll(() => dispose());

/** A machine whose profile prod points to a server with this handler. */
async function withServer(handler: Handler) {
  const server = await scriptedServer(handler);
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k2mX' });
  return { machine, server };
}

const lastLine = (text: string) => JSON.parse(text.trim().split('\n').at(-1) ?? '');

describe('the bytes on stdout are the same', () => {
  test.each([[[]], [['--json']], [['--ndjson']], [['--csv']]])(
    'in every locale, terminal and time zone: %j',
    async (format) => {
      const args = ['list', '--profile', 'local', '--all', ...format];
      const plain = await machine.command(args);
      expect(plain.stdout).toContain('Fürst Pückler');
      expect(plain.stdout).not.toContain('\u001b');
      const environments: Record<string, string>[] = [
        { LANG: 'C', LC_ALL: 'C' },
        { LANG: 'de_DE.UTF-8' },
        { TERM: 'dumb' },
        { COLUMNS: '20', LINES: '5' },
        { CI: 'true', GITHUB_ACTIONS: 'true' },
        { TZ: 'Pacific/Auckland' },
      ];
      for (const env of environments) expect(await machine.command(args, { env })).toEqual(plain);
    },
  );

  test('with any standard streams', async () => {
    const { stdout } = await machine.pets(['list', '--profile', 'local', '--json']);
    for (const streams of ['', '< /dev/null', '<&-', '| cat', '2> /dev/null', '--no-input']) {
      const ran = await machine.shell(`pets list --profile local --json ${streams}`);
      expect([streams, ran.code, ran.stdout]).toEqual([streams, 0, stdout]);
    }
  });
});

test('during a rate limit, profiles --check sends one request a minute, so that checking cannot cause a ban', async () => {
  const { machine, server } = await withServer((_, response) => {
    const error = { code: 'rate_limited', message: 'slow down', status: 429 };
    reply(response, 429, error, { 'Retry-After': '3600' });
  });
  const now = Date.now();
  for (let seconds = 0; seconds < 60; seconds += 10) {
    const clock = { now: () => now + seconds * 1_000 };
    const { code, stdout } = await machine.pets(['profiles', '--check', '--profile', 'prod', '--json'], {
      clock,
    });
    const [{ check }] = JSON.parse(stdout);
    expect([code, check.ok, check.code, check.remaining]).toEqual([0, false, 'rate_limited', 0]);
    expect(Date.parse(check.reset)).toBeGreaterThan(now);
  }
  // The first, when nothing was known yet, and one that ignores the cool-down.
  expect(server.requests).toHaveLength(2);
});

test('--idempotency-key works with a service that this machine does not know: a GET first shows that it honours keys', async () => {
  const { machine, server } = await withServer((request, response) =>
    request.method === 'GET'
      ? reply(response, 200, [], { 'Idempotency-Supported': 'true' })
      : request.socket.destroy(),
  );
  const add = ['add', 'Rex', '--category', '3', '--idempotency-key', 'job-7', '--no-retry', '--json'];
  const { code, stderr } = await machine.pets(add);
  const { error } = lastLine(stderr);
  expect([code, error.code, error.idempotencyKey]).toEqual([6, 'outcome_unknown', 'job-7']);
  expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'POST']);
});
