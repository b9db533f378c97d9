import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commands } from '../../src/cli/main.ts';
import { systemClock } from '../../src/system/clock.ts';
import { readDocument, repository } from '../helpers/documents.ts';
import { inventoryWithoutKeys } from '../helpers/inventory.ts';
import {
  freshMachine,
  type Machine,
  machineWithServer,
  type ProgramOptions,
  serve,
} from '../helpers/pets.ts';
import { runProgram } from '../helpers/run-program.ts';
import { reply, replyError } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// Runs commands with --json, and compares everything that they write with the types in docs/json-output.d.ts.

const DECLARATIONS = 'docs/json-output.d.ts';

/** JSON that the program wrote, and its type, such as `Output['list']`. */
type Sample = { type: string; json: string };

/** The errors that the compiler of TypeScript finds if each sample is a constant of its type. */
async function typeErrors(samples: readonly Sample[]): Promise<string> {
  const directory = await temporaryDirectory();
  const constants = samples.map(({ type, json }, i) => `export const sample${i}: ${type} = ${json.trim()};`);
  const file = [
    `import type { Message, Output } from '${join(repository, DECLARATIONS).replace('.d.ts', '.js')}';`,
    '// @ts-expect-error This shows that the types were found.',
    "export const wrong: Output['list'] = 'list';",
    ...new Set(constants),
  ];
  await writeFile(join(directory, 'samples.ts'), file.join('\n'));
  const compiler = join(repository, 'node_modules', 'typescript-7', 'bin', 'tsc');
  const args = [compiler, '--noEmit', '--strict', '--exactOptionalPropertyTypes', 'samples.ts'];
  return (await runProgram(process.execPath, args, { cwd: directory })).output;
}

/** The fields and the literals of the types, such as `"plan":` and `"free"`, that no sample has. */
function unseen(samples: readonly Sample[]): string[] {
  const { text } = readDocument(DECLARATIONS);
  const types = text.slice(text.indexOf('export type Message')).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
  const fields = Array.from(types.matchAll(/(\w+)\??:/g), ([, name]) => `"${name}":`);
  const literals = Array.from(types.matchAll(/'([^']+)'/g), ([, value]) => `"${value}"`);
  const all = samples.map(({ json }) => json).join('\n');
  return [...new Set([...fields, ...literals])].filter((part) => !all.includes(part));
}

/** The types in `Output` whose output has one JSON value per line. */
const LINE_OUTPUTS = ['list --ndjson', 'orders --ndjson', 'serve'];

/** Runs commands with `--json` and collects their output. */
function collectSamples() {
  const samples: Sample[] = [];
  /** The arguments of each command that was run, joined with spaces. */
  const commandLines: string[] = [];
  const addSample = (name: string, json: string) => samples.push({ type: `Output['${name}']`, json });

  /** Each line of stderr is an event of `serve -- <command>`, or an object whose only field is named after its type. */
  function addMessages(stderr: string): void {
    for (const line of linesOf(stderr)) {
      if (line.startsWith('{"event"')) addSample('serve -- <command>', line);
      else {
        const [field = '', ...more] = Object.keys(JSON.parse(line));
        expect(more, line).toEqual([]);
        samples.push({ type: `Pick<Message, '${field}'>`, json: line });
      }
    }
  }

  return {
    samples,
    commandLines,

    /** `field` names the type of stdout in `Output`. Without `field`, stdout must be empty. */
    async run(
      machine: Machine,
      field: string | undefined,
      args: readonly string[] = field?.split(' ') ?? [],
      { exit = 0, ...options }: ProgramOptions & { exit?: number } = {},
    ): Promise<void> {
      commandLines.push(args.join(' '));
      const flags = args.includes('--ndjson') ? [] : ['--json'];
      const [command = '', ...rest] = args;
      const { code, stdout, stderr } = await machine.pets([command, ...flags, ...rest], options);
      expect(code, `${args.join(' ')}\n${stdout}\n${stderr}`).toBe(exit);
      if (field === undefined) expect(stdout).toBe('');
      else if (LINE_OUTPUTS.includes(field)) for (const line of linesOf(stdout)) addSample(field, line);
      else addSample(field, stdout);
      if (flags.length > 0) addMessages(stderr);
    },

    /** Starts a service. `end` stops the service and adds its events to the samples. */
    async serve(machine: Machine, args: readonly string[], options: ProgramOptions = {}) {
      commandLines.push('serve');
      const service = await serve(machine, args, options);
      return {
        ...service,
        async end() {
          await service.end('SIGTERM');
          for (const line of linesOf(service.stdout())) addSample('serve', line);
          addMessages(service.stderr());
        },
      };
    },
  };
}

const linesOf = (text: string): string[] => text.split('\n').slice(0, -1);

const HONOURED = { 'Idempotency-Supported': 'true' };
const BIG = '9223372036854775807';

type Samples = ReturnType<typeof collectSamples>;

/** Collects the output of most commands with a real service. */
async function withRealService({ run, serve }: Samples): Promise<void> {
  const machine = await freshMachine();
  const store = join(machine.home, 'store');
  const data = ['--data', store];
  const service = await serve(machine, ['--seed', ...data, '--log']);
  await usePage(service);
  await machine.pets(['use', 'local']);
  await run(machine, 'list', ['list', '--debug']);
  await run(machine, 'find', ['find', 'rex', '--limit', '2']);
  for (const field of ['list --ndjson', 'count', 'count --by category', 'orders', 'orders --ndjson'])
    await run(machine, field);
  await run(machine, 'get <id>', ['get', '1']);
  await run(machine, 'get <id> <id>...', ['get', '2', '4711', '1'], { exit: 3 });
  await run(machine, 'add <name>', ['add', 'Rex', '--category', BIG]);
  const rows = (name: string, ...lines: string[]) =>
    machine.file(name, `name,category,status\n${lines.join('\n')}\n`);
  const a = await rows('a.csv', 'P,1,sold', 'Q,1,pending', 'R,1,', 'S,1,', 'T,1,');
  await run(machine, 'import <file> --dry-run', ['import', a, '--dry-run']);
  await run(machine, 'import <file>', ['import', a]);
  // One of the rows was imported before, so a line on stderr names it.
  const b = await rows('b.csv', 'P,1,sold', 'U,1,', 'V,1,', 'W,1,', 'X,1,');
  // This clock advances by a minute with each reading, so that the command reports progress.
  let minutes = 0;
  const clock = { ...systemClock, now: () => Date.now() + 60_000 * minutes++ };
  await run(machine, 'import <file>', ['import', b], { clock });
  await run(machine, 'import <file>', ['import', await rows('a.csv', 'P,1,sold'), '--skip-added']);
  await run(machine, undefined, ['import', await rows('bad.csv', 'Rex,x')], { exit: 2 });
  await run(machine, undefined, ['list', '--limit', '0', '--debug'], { exit: 2 });
  await machine.saveProfile('prod', { baseUrl: 'http://127.0.0.1:9/v1', key: 'pets_k' });
  await machine.file('.config/pets/staging.json', 'torn');
  await run(machine, 'profiles');
  const env = { PETS_API_KEY: 'pets_k', PETS_BASE_URL: service.url };
  await run(machine, 'profiles --check', ['profiles', '--check'], { env, exit: 4 });
  for (const plan of ['free', 'pro', 'business'])
    await run(machine, 'keys add', ['keys', 'add', plan, '--plan', plan, ...data]);
  const own = ['--plan', 'enterprise', '--per-minute', '500', '--per-day', '1000'];
  await run(machine, 'keys add', ['keys', 'add', 'own', ...own, ...data]);
  await run(machine, undefined, ['keys', 'revoke', 'own', ...data]);
  const { sha256 } = JSON.parse(await readFile(join(store, 'keys', 'free.json'), 'utf8'));
  await service.end();
  await run(machine, 'store check', ['store', 'check', store]);
  await run(machine, 'store copy', ['store', 'copy', store, join(machine.home, 'copy')]);
  await machine.file('store/bans.json', JSON.stringify({ [sha256]: '2999-01-01T00:00:00.000Z' }));
  await run(machine, 'keys list', ['keys', 'list', ...data]);
  // An empty store has no last id.
  const empty = join(machine.home, 'empty');
  const rules = [
    { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 1, retryAfter: 1 },
    { latency: 1 },
  ];
  const file = await machine.file('faults.json', JSON.stringify(rules));
  const faults = ['--latency', '1-2', '--fail-rate', '0', '--fault-seed', '7', '--faults', file];
  await (await serve(machine, ['--data', empty, '--no-profile', '--no-page', ...faults])).end();
  await run(machine, 'store check', ['store', 'check', empty]);
}

/** Opens the page. The server then prints a new address of the page. */
async function usePage({ page }: { page: string }): Promise<void> {
  const body = JSON.stringify({ code: new URL(page).hash.slice(3) });
  const headers = { 'Content-Type': 'application/json' };
  expect((await fetch(new URL('/session', page), { method: 'POST', body, headers })).status).toBe(200);
}

/** Collects the version, the events of `serve -- <command>`, and the output of commands that print no data. */
async function withoutData({ run }: Samples): Promise<void> {
  const machine = await freshMachine();
  await run(machine, undefined, ['serve', '--ephemeral', '--', process.execPath, '--eval', '']);
  await run(machine, undefined, ['use', 'staging']);
  const login = ['login', '--no-verify', '--base-url', 'http://127.0.0.1:9/v1'];
  await run(machine, undefined, login, { stdin: 'pets_k' });
  await run(machine, undefined, ['logout']);
  await run(machine, undefined, ['list'], { exit: 4 });
}

/** Collects the output with odd animals, two rate limits, a failed creation, and rows that fail or are lost. */
async function withLostResponses({ run }: Samples): Promise<void> {
  const odd = [
    { id: 'a1', name: 'Rex', categoryId: null, status: null },
    { id: 2, name: 'Rex', status: 'lost' },
  ];
  const { machine } = await machineWithServer((request, response, _, body) => {
    const limits = { RateLimit: '"long";r=8;t=100000000, "short";r=9;t=60' };
    if (request.method === 'GET') return reply(response, 200, odd, limits);
    if (body.includes('lost')) return request.socket.destroy();
    if (body.includes('bad')) return replyError(response, 422, 'bad_name');
    return reply(response, 201, { id: 2, ...JSON.parse(body) });
  });
  for (const field of ['list', 'list --ndjson', 'count', 'count --by category', 'profiles --check'])
    await run(machine, field);
  const { machine: failing } = await machineWithServer((_, response) =>
    replyError(response, 503, 'busy', HONOURED),
  );
  await run(failing, undefined, ['add', 'Rex', '--category', '1', '--no-retry'], { exit: 6 });
  const a = await machine.file('a.csv', 'name,category,status\ngood,1,\nbad,1,\nlost,1,pending\n');
  await run(machine, 'import <file>', ['import', a], { exit: 8 });
}

/** Collects the output for a row that may have been added as a listed animal. The ids of the service are text. */
async function withSettledRow({ run }: Samples): Promise<void> {
  const service = await inventoryWithoutKeys({ idOf: (number) => `id-${number}` });
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: service.url, key: 'pets_k' });
  const a = await machine.file('a.csv', 'name,category\ngood,1\nlost,1\n');
  service.lose = (name) => (name === 'lost' ? 'after adding' : undefined);
  await machine.pets(['import', a]);
  // The second run waits before it compares the row with the list.
  await run(machine, 'import <file>', ['import', a], { sleep: async () => {}, exit: 8 });
}

/** Collects the output for every reason to wait, and for attempts that fail. */
async function withWaits({ run }: Samples): Promise<void> {
  const { machine: busy } = await machineWithServer((request, response, count) => {
    if (count === 1) return request.socket.destroy();
    if (count === 2) return replyError(response, 503, 'busy', HONOURED);
    if (request.method === 'GET') return reply(response, 200, [], HONOURED);
    if (count === 4) return replyError(response, 409, 'idempotency_in_flight', HONOURED);
    return reply(response, 201, { id: 1, name: 'Rex', categoryId: 1, status: 'sold' }, HONOURED);
  });
  const { machine: limited } = await machineWithServer((_, response, count) => {
    if (count === 1) return replyError(response, 429, 'rate_limited', { 'Retry-After': '1' });
    return reply(response, 200, []);
  });
  const { machine: refusing } = await machineWithServer((_, response) =>
    replyError(response, 429, 'rate_limited', { 'Retry-After': '30' }),
  );
  const closed = await freshMachine();
  await closed.saveProfile('prod', { baseUrl: 'http://127.0.0.1:9/v1', key: 'pets_k' });
  await Promise.all([
    run(busy, 'list', ['list', '--debug']).then(() =>
      run(busy, 'add <name>', ['add', 'Rex', '--category', '1', '--debug']),
    ),
    run(limited, 'list', ['list', '--debug']),
    run(refusing, undefined, ['list', '--max-wait', '0'], { exit: 5 }),
    run(closed, undefined, ['list', '--debug', '--no-retry'], { exit: 6 }),
  ]);
}

test('the output of every command with --json has the types in docs/json-output.d.ts', async () => {
  const collected = collectSamples();
  const parts = [withRealService, withoutData, withLostResponses, withSettledRow, withWaits];
  await Promise.all(parts.map((part) => part(collected)));
  const { samples, commandLines } = collected;
  const names = commands.flatMap((entry) =>
    'commands' in entry ? entry.commands.map(({ name }) => `${entry.name} ${name}`) : [entry.name],
  );
  const withoutSample = names.filter(
    (name) => !commandLines.some((line) => `${line} `.startsWith(`${name} `)),
  );
  // `pets completion` and `pets help` print text with --json, too.
  expect(withoutSample.sort()).toEqual(['completion', 'help', 'store migrate']);
  expect(samples.some(({ json }) => json.includes(`"categoryId":${BIG}`))).toBe(true);
  expect(await typeErrors(samples)).toBe('');
  // Only a database can be migrated: see test/cli/database-commands.postgres.test.ts.
  expect(unseen(samples)).toEqual(['"sql":']);
});
