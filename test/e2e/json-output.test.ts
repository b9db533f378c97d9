import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { commands } from '../../src/cli/commands/index.ts';
import { systemClock } from '../../src/system/clock.ts';
import { readDocument } from '../helpers/documents.ts';
import { inventoryWithoutKeys } from '../helpers/express.ts';
import { freshMachine, type Machine, type ProgramOptions, serve } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

const declarations = readDocument('docs/json-output.d.ts').text;

/** JSON that the program wrote. The type of `field` in the type `root` (`Output` or `Message`) must match the JSON. */
type Sample = { root: string; field: string; json: string };

/**
 * Compares each sample with its declared type. `errors` has the samples that do not match their types. `unseen` names
 * the declared fields and values that no sample has, and the optional fields that every sample has.
 */
function checkSamples(declarations: string, samples: readonly Sample[]) {
  const file = ts.createSourceFile('types.ts', declarations, ts.ScriptTarget.ES2023, true);
  const types = new Map(
    file.statements.filter(ts.isTypeAliasDeclaration).map(({ name, type }) => [name.text, type]),
  );

  /** The fields and literals of `type` that `value` has, and the `?` of those it lacks; undefined if `type` does not fit. */
  function shownBy(value: unknown, type: ts.Node | undefined): ts.Node[] | undefined {
    const all = (parts: (ts.Node[] | undefined)[]) =>
      parts.includes(undefined) ? undefined : parts.flatMap((part) => part ?? []);
    if (type === undefined) return undefined;
    if (ts.isTypeReferenceNode(type)) return shownBy(value, types.get(type.getText()));
    if (ts.isParenthesizedTypeNode(type)) return shownBy(value, type.type);
    if (ts.isUnionTypeNode(type))
      return type.types.map((each) => shownBy(value, each)).find((shown) => shown !== undefined);
    if (ts.isLiteralTypeNode(type))
      return type.getText().replaceAll("'", '"') === JSON.stringify(value) ? [type] : undefined;
    if (ts.isArrayTypeNode(type))
      return Array.isArray(value) ? all(value.map((each) => shownBy(each, type.elementType))) : undefined;
    if (!ts.isTypeLiteralNode(type))
      return ['unknown', typeof value].includes(type.getText()) ? [] : undefined;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    const fields = new Map(Object.entries(value));
    const [first] = type.members;
    if (first && ts.isIndexSignatureDeclaration(first))
      return all([...fields.values()].map((each) => shownBy(each, first.type)));
    const declared = type.members.filter(ts.isPropertySignature);
    if ([...fields.keys()].some((name) => !declared.some((each) => nameOf(each) === name))) return undefined;
    return all(
      declared.map((each) => {
        if (!fields.has(nameOf(each))) return each.questionToken && [each.questionToken];
        return all([[each], shownBy(fields.get(nameOf(each)), each.type)]);
      }),
    );
  }

  const shown = new Set<ts.Node>();
  const errors = samples.filter(({ root, field, json }) => {
    const type = types.get(root);
    const declared = type && ts.isTypeLiteralNode(type) ? type.members.filter(ts.isPropertySignature) : [];
    const property = declared.find((each) => nameOf(each) === field);
    const nodes = shownBy(JSON.parse(json), property?.type);
    for (const node of [...(nodes ?? []), ...(property ? [property] : [])]) shown.add(node);
    return nodes === undefined;
  });
  const unseen: string[] = [];
  function visit(node: ts.Node): void {
    const where = ts.findAncestor(node, ts.isTypeAliasDeclaration)?.name.text;
    if (ts.isPropertySignature(node)) {
      if (!shown.has(node)) unseen.push(`${where}.${nameOf(node)}: no sample has it`);
      else if (node.questionToken && !shown.has(node.questionToken))
        unseen.push(`${where}.${nameOf(node)}: every sample has it`);
    }
    if (ts.isLiteralTypeNode(node) && !shown.has(node))
      unseen.push(`${where}: no sample has ${node.getText()}`);
    ts.forEachChild(node, visit);
  }
  visit(file);
  return { errors, unseen };
}

const nameOf = ({ name }: ts.PropertySignature): string =>
  ts.isStringLiteral(name) ? name.text : name.getText();

/** The fields of `Output` whose output has one JSON value per line. */
const LINE_OUTPUTS = ['list --ndjson', 'orders --ndjson', 'serve'];

/** Runs commands with `--json` and collects their output as samples of `Output` and `Message`. */
function collectSamples() {
  const samples: Sample[] = [];
  /** The arguments of each command that was run, joined with spaces. */
  const commandLines: string[] = [];
  const addSample = (field: string, json: string) => samples.push({ root: 'Output', field, json });

  /** Each line of stderr is an event of `serve -- <command>`, or an object whose only field is named after its type. */
  function addMessages(stderr: string): void {
    for (const line of linesOf(stderr)) {
      const message = JSON.parse(line);
      const [field = '', ...more] = Object.keys(message);
      if (field === 'event') addSample('serve -- <command>', line);
      else {
        expect(more, line).toEqual([]);
        samples.push({ root: 'Message', field, json: line.slice(line.indexOf(':') + 1, -1) });
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
      args: readonly string[],
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

/** A machine whose profile prod points to a server with this handler. */
async function shopWith(
  handler: (...args: [...Parameters<Handler>, body: string]) => unknown,
): Promise<Machine> {
  const machine = await freshMachine();
  const server = await scriptedServer((request, response, count) => {
    handler(request, response, count, server.requests[count - 1]?.body ?? '');
  });
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k' });
  return machine;
}

const errorOf = (status: number, code: string) => ({ code, message: 'no', status });

/** Collects the output of most commands with a real service. */
async function withRealService({ run, serve }: Samples): Promise<void> {
  const machine = await freshMachine();
  const store = join(machine.home, 'store');
  const faults = ['--latency', '1-2', '--fail-rate', '0', '--fault-seed', '7'];
  const service = await serve(machine, ['--seed', '--data', store, '--log', ...faults]);
  await usePage(service);
  await machine.pets(['use', 'local']);
  const a = await machine.file('a.csv', 'name,category,status\nRex,1,sold\nBella,2,\nKim,1,available\n');
  const bad = await machine.file('bad.csv', 'name,category\nRex,x\n');
  await run(machine, 'list', ['list', '--debug']);
  await run(machine, 'find', ['find', 'rex', '--limit', '2']);
  for (const field of ['list --ndjson', 'count', 'count --by category'])
    await run(machine, field, field.split(' '));
  await run(machine, 'get <id>', ['get', '1']);
  await run(machine, 'get <id> <id>...', ['get', '2', '4711', '1'], { exit: 3 });
  await run(machine, 'add <name>', ['add', 'Rex', '--category', BIG]);
  await run(machine, 'import <file> --dry-run', ['import', a, '--dry-run']);
  await run(machine, 'import <file>', ['import', a]);
  await machine.file('a.csv', 'name,category\nBella,2\nMax,3\n');
  await run(machine, 'import <file>', ['import', a, '--skip-added']);
  const [five, more] = await Promise.all(
    ['P,Q,R,S,T', 'P,U,V,W,X'].map((names) =>
      machine.file(`${names}.csv`, `name,category\n${names.replaceAll(',', ',1\n')},1\n`),
    ),
  );
  await run(machine, 'import <file>', ['import', five ?? '']);
  // One of the rows was imported before, so a line on stderr names it.
  await run(machine, 'import <file>', ['import', more ?? '']);
  await run(machine, 'orders', ['orders']);
  await run(machine, 'orders --ndjson', ['orders', '--ndjson', '--where', 'status=placed']);
  await run(machine, undefined, ['import', bad], { exit: 2 });
  await run(machine, undefined, ['list', '--limit', '0', '--debug'], { exit: 2 });
  await machine.saveProfile('prod', { baseUrl: 'http://127.0.0.1:9/v1', key: 'pets_k' });
  await machine.file('.config/pets/staging.json', 'torn');
  await run(machine, 'profiles', ['profiles']);
  const env = { PETS_API_KEY: 'pets_k', PETS_BASE_URL: service.url };
  await run(machine, 'profiles --check', ['profiles', '--check'], { env, exit: 4 });
  for (const plan of ['free', 'pro', 'business']) {
    await run(machine, 'keys add', ['keys', 'add', plan, '--plan', plan, '--data', store]);
  }
  const own = ['--plan', 'enterprise', '--per-minute', '500', '--per-day', '1000'];
  await run(machine, 'keys add', ['keys', 'add', 'own', ...own, '--data', store]);
  await run(machine, undefined, ['keys', 'revoke', 'own', '--data', store]);
  await run(machine, 'store check', ['store', 'check', store]);
  const empty = await serve(machine, ['--data', join(machine.home, 'empty'), '--no-profile']);
  await empty.end();
  await run(machine, 'store check', ['store', 'check', join(machine.home, 'empty')]);
  await service.end();
  await run(machine, 'store copy', ['store', 'copy', store, join(machine.home, 'copy')]);
  const { sha256 } = JSON.parse(await readFile(join(store, 'keys', 'free.json'), 'utf8'));
  await machine.file('store/bans.json', JSON.stringify({ [sha256]: '2999-01-01T00:00:00.000Z' }));
  await run(machine, 'keys list', ['keys', 'list', '--data', store]);

  // Start three services: on another machine than the one that created the key `dev`, after `dev` was revoked, and with
  // a single id left. The clock of the last service fails once.
  const stranger = await freshMachine();
  await (await serve(stranger, ['--data', store])).end();
  await run(machine, undefined, ['keys', 'revoke', 'dev', '--data', store]);
  const again = await serve(machine, ['--data', store, '--no-profile', '--no-page'], {
    env: { PETS_SERVE_TOKEN: 'a-token-of-the-user-0' },
  });
  await again.end();
  const last = '{"id":9223372036854775806,"name":"Rex","categoryId":1,"status":"sold"}';
  let fails = false;
  const clock = {
    now() {
      if (!fails) return Date.now();
      fails = false;
      throw new Error('the clock failed once');
    },
    elapsed: () => performance.now(),
  };
  const seed = await stranger.file('last.ndjson', last);
  const full = await serve(stranger, ['--ephemeral', '--seed', seed], { clock });
  await stranger.pets(['use', 'local']);
  await run(stranger, 'add <name>', ['add', 'Max', '--category', '1']);
  await run(stranger, undefined, ['add', 'Max', '--category', '1', '--no-retry'], { exit: 7 });
  fails = true;
  await run(stranger, undefined, ['add', 'Max', '--category', '1', '--no-retry'], { exit: 6 });
  await full.end();
}

/** Opens the page. The server then prints a new address of the page. */
async function usePage({ page }: { page: string }): Promise<void> {
  const body = JSON.stringify({ code: new URL(page).hash.slice(3) });
  const headers = { 'Content-Type': 'application/json' };
  expect((await fetch(new URL('/session', page), { method: 'POST', body, headers })).status).toBe(200);
}

/** Collects the version, the output of `serve -- <command>`, and of commands that write nothing to stdout. */
async function withoutData({ run, serve }: Samples): Promise<void> {
  const machine = await freshMachine();
  await run(machine, '--version', ['--version']);
  const command = ['--', process.execPath, '--eval', ''];
  await run(machine, undefined, ['serve', '--ephemeral', ...command]);
  await run(machine, undefined, ['serve', '--ephemeral', '--no-page', '--latency', '1', ...command]);
  const env = { PETS_SERVE_TOKEN: 'a-token-of-the-user-0' };
  await run(machine, undefined, ['serve', '--ephemeral', '--fail-rate', '0.5', ...command], { env });
  const rules = [
    { match: {}, latency: 1 },
    { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 1, retryAfter: 1 },
    { answer: 500 },
  ];
  const file = await machine.file('faults.json', JSON.stringify(rules));
  await run(machine, undefined, ['serve', '--ephemeral', '--faults', file, ...command]);
  const service = await serve(machine, ['--ephemeral', '--plan', 'enterprise']);
  await run(machine, undefined, ['use', 'staging']);
  const login = ['login', '--no-verify', '--base-url', service.url];
  await run(machine, undefined, login, { stdin: 'pets_k' });
  await run(machine, undefined, ['logout']);
  await run(machine, undefined, ['list'], { exit: 4 });
  await service.end();
}

/** Collects the output with two rate limits, a failed creation, and rows that fail or whose response is lost. */
async function withLostResponses({ run }: Samples): Promise<void> {
  const machine = await shopWith((request, response, _, body) => {
    const limits = { RateLimit: '"long";r=8;t=100000000, "short";r=9;t=60' };
    if (request.method === 'GET')
      return reply(response, 200, [{ id: 1, name: 'Rex', categoryId: 1 }], limits);
    if (body.includes('lost')) return request.socket.destroy();
    if (body.includes('bad')) return reply(response, 422, errorOf(422, 'bad_name'));
    return reply(response, 201, { id: 2, ...JSON.parse(body) });
  });
  await run(machine, 'list', ['list']);
  await run(machine, 'profiles --check', ['profiles', '--check']);
  const failing = await shopWith((_, response) => reply(response, 503, errorOf(503, 'busy'), HONOURED));
  await run(failing, undefined, ['add', 'Rex', '--category', '1', '--no-retry'], { exit: 6 });
  const a = await machine.file('a.csv', 'name,category,status\ngood,1,\nbad,1,\nlost,1,pending\n');
  await run(machine, 'import <file>', ['import', a], { exit: 8 });
}

/** Collects the output for a row that may have been added as a listed animal. The ids of the service are text. */
async function withSettledRow({ run }: Samples): Promise<void> {
  const service = await inventoryWithoutKeys({ idOf: (number) => `id-${number}` });
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: `http://${service.host}/v1`, key: 'pets_k' });
  const a = await machine.file('a.csv', 'name,category\ngood,1\nlost,1\n');
  const sentAt = Date.now();
  const clockAt = (time: number) => ({ now: () => time, elapsed: () => performance.now() });
  service.lose = (name) => (name === 'lost' ? 'after adding' : undefined);
  await machine.pets(['import', a], { clock: clockAt(sentAt) });
  // The second run starts 5 ms too early to compare the row with the list, and waits. --debug reports even such a wait.
  const clock = clockAt(sentAt + 30_000 - 5);
  await run(machine, 'import <file>', ['import', a, '--debug'], { clock, exit: 8 });
}

/** Collects the output for animals that do not match the specification. */
async function withOddAnimals({ run }: Samples): Promise<void> {
  const machine = await shopWith((_, response) =>
    reply(response, 200, [
      { id: 'a1', name: 'Rex', categoryId: null, status: null },
      { id: 2, name: 'Rex', status: 'lost' },
    ]),
  );
  for (const field of ['list', 'list --ndjson', 'count', 'count --by category'])
    await run(machine, field, field.split(' '));
}

/** Collects the output for every reason to wait, and for attempts that fail. */
async function withWaits({ run }: Samples): Promise<void> {
  const busy = await shopWith((request, response, count) => {
    if (count === 1) return request.socket.destroy();
    if (count === 2) return reply(response, 503, errorOf(503, 'busy'), HONOURED);
    if (request.method === 'GET') return reply(response, 200, [], HONOURED);
    if (count === 4) return reply(response, 409, errorOf(409, 'idempotency_in_flight'), HONOURED);
    return reply(response, 201, { id: 1, name: 'Rex', categoryId: 1, status: 'sold' }, HONOURED);
  });
  const limited = await shopWith((_, response, count) => {
    if (count === 1) return reply(response, 429, errorOf(429, 'rate_limited'), { 'Retry-After': '1' });
    return reply(response, 200, []);
  });
  const refusing = await shopWith((_, response) =>
    reply(response, 429, errorOf(429, 'rate_limited'), { 'Retry-After': '30' }),
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

/** Collects the progress of a bulk run. Its clock advances by a minute with each reading, so it reports progress. */
async function withProgress({ run }: Samples): Promise<void> {
  let id = 0;
  const machine = await shopWith((request, response) => {
    if (request.method === 'GET') reply(response, 200, [], HONOURED);
    else reply(response, 201, { id: ++id, name: 'Rex', categoryId: id }, HONOURED);
  });
  const a = await machine.file('a.csv', 'name,category\nRex,1\nRex,2\n');
  let minutes = 0;
  const clock = { ...systemClock, now: () => Date.now() + 60_000 * minutes++ };
  await run(machine, 'import <file>', ['import', a], { clock });
}

test('the output of every command with --json has the types in docs/json-output.d.ts, and every type has a sample', async () => {
  const samples = collectSamples();
  const parts = [
    withRealService,
    withoutData,
    withLostResponses,
    withSettledRow,
    withOddAnimals,
    withWaits,
    withProgress,
  ];
  await Promise.all(parts.map((part) => part(samples)));
  const names = commands.flatMap((entry) =>
    'commands' in entry ? entry.commands.map(({ name }) => `${entry.name} ${name}`) : [entry.name],
  );
  const withoutSample = names.filter(
    (name) => !samples.commandLines.some((line) => `${line} `.startsWith(`${name} `)),
  );
  // `pets completion` and `pets help` print text with --json, too. Only a database can be migrated: see
  // test/cli/database-commands.postgres.test.ts.
  expect(withoutSample.sort()).toEqual(['completion', 'help', 'store migrate']);
  const json = samples.samples.map((sample) => sample.json);
  expect(json.filter((text) => text.includes(`"categoryId":${BIG}`))).not.toEqual([]);
  // Only a store in PostgreSQL has no sequence number, and can be migrated.
  const unseen = [
    'Output.store migrate: no sample has it',
    'Output.store migrate --dry-run: no sample has it',
    'Store: no sample has null',
    ...['directory', 'created'].map((field) => `Migration.${field}: no sample has it`),
    ...['directory', 'sql'].map((field) => `PendingMigration.${field}: no sample has it`),
  ];
  expect(checkSamples(declarations, samples.samples)).toEqual({ errors: [], unseen });
});

test('the check finds values of another type, and declared fields and values that no sample has', () => {
  const types = `export type Output = { one: A | B };
    export type A = { kind: 'a'; id: number; note?: string };
    export type B = { kind: 'b'; name: string };`;
  const check = (...samples: readonly string[]) =>
    checkSamples(
      types,
      samples.map((json) => ({ root: 'Output', field: 'one', json })),
    );
  const good = ['{"kind":"a","id":1}', '{"kind":"a","id":1,"note":""}', '{"kind":"b","name":""}'];
  expect(check(...good)).toEqual({ errors: [], unseen: [] });
  const wrongFields = ['{"kind":"a","id":1,"extra":1}', '{"kind":"b","name":"","id":1}', '{"kind":"b"}'];
  for (const json of [...wrongFields, '{"kind":"b","name":null}', '{"kind":"c","id":1}'])
    expect(check(...good, json).errors).toMatchObject([{ json }]);
  const unseen = ['A.note: every sample has it', 'B.kind: no sample has it'];
  expect(check(...good.slice(1, 2)).unseen).toEqual([
    ...[...unseen, "B: no sample has 'b'", 'B.name: no sample has it'],
  ]);
});
