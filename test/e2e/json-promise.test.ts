import { readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { promiseSamples } from '../helpers/promise-samples.ts';
import { checkSamples } from '../helpers/promise-types.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

const README = readFileSync(join(import.meta.dirname, '..', '..', 'README.md'), 'utf8');
const [, declarations = ''] = /^## JSON output\n[\s\S]*?^```ts\n([\s\S]*?)^```/m.exec(README) ?? [];

const HONOURED = { 'Idempotency-Supported': 'true' };
const BIG = '9223372036854775807';

type Samples = ReturnType<typeof promiseSamples>;

/** A machine whose profile prod is a server that answers as told. */
async function shopWith(
  answer: (...args: [...Parameters<Handler>, body: string]) => unknown,
): Promise<Machine> {
  const machine = await freshMachine();
  const server = await scriptedServer((request, response, count) => {
    answer(request, response, count, server.requests[count - 1]?.body ?? '');
  });
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k' });
  return machine;
}

const file = (machine: Machine, name: string, text: string) => writeFile(join(machine.home, name), text);

const errorOf = (status: number, code: string) => ({ code, message: 'no', status });

/** Everything that a service of its own makes the commands say. */
async function withRealService({ run, serve }: Samples): Promise<void> {
  const machine = await freshMachine();
  const faults = ['--latency', '1-2', '--fail-rate', '0', '--fault-seed', '7'];
  const service = await serve(machine, ['--seed', '--data', 'store', '--log', ...faults]);
  await machine.pets(['use', 'local']);
  await file(machine, 'a.csv', 'name,category,status\nRex,1,sold\nBella,2,\n');
  await file(machine, 'bad.csv', 'name,category\nRex,x\n');
  await run(machine, 'list', ['list', '--debug']);
  await run(machine, 'list --ndjson', ['list', '--ndjson', '--all']);
  await run(machine, 'get <id>', ['get', '1']);
  await run(machine, 'get <id> <id>...', ['get', '2', '4711', '1'], { exit: 3 });
  await run(machine, 'add <name>', ['add', 'Rex', '--category', BIG]);
  await run(machine, 'add <name> --dry-run', ['add', 'Rex', '--category', '1', '--dry-run']);
  await run(machine, 'add --from <file>', ['add', '--from', 'a.csv']);
  await run(machine, 'add --from <file> --dry-run', ['add', '--from', 'a.csv', '--dry-run']);
  await run(machine, 'orders', ['orders']);
  await run(machine, undefined, ['add', '--from', 'bad.csv'], { exit: 2 });
  await run(machine, undefined, ['list', '--limit', '0', '--debug'], { exit: 2 });
  await machine.saveProfile('prod', { baseUrl: 'http://127.0.0.1:9/v1', key: 'pets_k' });
  await file(machine, '.config/pets/staging.json', 'torn');
  await run(machine, 'profiles', ['profiles']);
  const env = { PETS_API_KEY: 'pets_k', PETS_BASE_URL: service.url };
  await run(machine, 'profiles --check', ['profiles', '--check'], { env });
  for (const plan of ['free', 'pro', 'business']) {
    await run(machine, 'keys add', ['keys', 'add', plan, '--plan', plan, '--data', 'store']);
  }
  const own = ['--plan', 'enterprise', '--per-minute', '500', '--per-day', '1000'];
  await run(machine, 'keys add', ['keys', 'add', 'own', ...own, '--data', 'store']);
  await run(machine, 'keys list', ['keys', 'list', '--data', 'store']);
  await run(machine, undefined, ['keys', 'revoke', 'own', '--data', 'store']);
  await service.end();

  // A key that only the other machine knows; then none, and keys that can no longer be read.
  const stranger = await freshMachine();
  const store = join(machine.home, 'store');
  await (await serve(stranger, ['--data', store])).end();
  await run(machine, undefined, ['keys', 'revoke', 'dev', '--data', 'store']);
  const again = await serve(machine, ['--data', 'store']);
  await rm(join(store, 'keys'), { recursive: true });
  await writeFile(join(store, 'keys'), '');
  await run(machine, undefined, ['list'], { exit: 7, env: { ...env, PETS_BASE_URL: again.url } });
  await again.end();
}

/** A service of a command's own, and commands that have no data. */
async function withoutData({ run, serve }: Samples): Promise<void> {
  const machine = await freshMachine();
  const command = ['--', process.execPath, '--eval', ''];
  await run(machine, undefined, ['serve', '--ephemeral', ...command]);
  await run(machine, undefined, ['serve', '--ephemeral', '--latency', '1', ...command]);
  await run(machine, undefined, ['serve', '--ephemeral', '--fail-rate', '0.5', ...command]);
  const service = await serve(machine, ['--ephemeral', '--plan', 'enterprise']);
  await run(machine, undefined, ['use', 'staging']);
  const login = ['login', '--with-key', '--no-verify', '--base-url', service.url];
  await run(machine, undefined, login, { stdin: 'pets_k' });
  await run(machine, undefined, ['logout']);
  await run(machine, undefined, ['list'], { exit: 4 });
  await service.end();
}

/** Rows that fail, and one whose answer is lost on a service that shows no idempotency. */
async function withLostAnswers({ run }: Samples): Promise<void> {
  const machine = await shopWith((request, response, _, body) => {
    if (request.method === 'GET') return reply(response, 200, [{ id: 1, name: 'Rex', categoryId: 1 }]);
    if (body.includes('lost')) return request.socket.destroy();
    if (body.includes('bad')) return reply(response, 422, errorOf(422, 'bad_name'));
    return reply(response, 201, { id: 2, ...JSON.parse(body) });
  });
  await run(machine, 'list', ['list']);
  await run(machine, 'profiles --check', ['profiles', '--check']);
  const failing = await shopWith((_, response) => reply(response, 503, errorOf(503, 'busy'), HONOURED));
  await run(failing, undefined, ['add', 'Rex', '--category', '1', '--no-retry'], { exit: 6 });
  await file(machine, 'a.csv', 'name,category,status\ngood,1,\nbad,1,\nlost,1,pending\n');
  await run(machine, undefined, ['add', '--from', 'a.csv'], { exit: 6 });
  await run(machine, 'add --from <file>', ['add', '--from', 'a.csv'], { exit: 8 });
}

/** Each reason to wait, and attempts that got nowhere. */
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
  const refusing = await shopWith((_, response) => reply(response, 429, errorOf(429, 'rate_limited')));
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

/** A bulk run that takes minutes, by a clock that leaps. */
async function withProgress({ run }: Samples): Promise<void> {
  const machine = await shopWith((request, response) => {
    if (request.method === 'GET') reply(response, 200, [], HONOURED);
    else reply(response, 201, { id: 1, name: 'Rex', categoryId: 1 }, HONOURED);
  });
  await file(machine, 'a.csv', 'name,category\nRex,1\nRex,2\n');
  const leaps = 'const now=Date.now;let n=0;Date.now=()=>now()+n++*16000';
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(leaps)}` };
  await run(machine, 'add --from <file>', ['add', '--from', 'a.csv'], { env });
}

test('the JSON output in the README is what every command writes: no field more, none less, none that is dead', async () => {
  const samples = promiseSamples();
  const parts = [withRealService, withoutData, withLostAnswers, withWaits, withProgress];
  await Promise.all(parts.map((part) => part(samples)));
  const json = samples.samples.map((sample) => sample.json);
  expect(json.filter((text) => text.includes(`"categoryId":${BIG}`))).not.toEqual([]);
  expect(checkSamples(declarations, samples.samples)).toEqual({ errors: [], unseen: [] });
}, 60_000);

test('fields that the service adds stay in an animal, digit for digit', async () => {
  const pet = `{"id":1,"name":"Rex","categoryId":${BIG},"status":"sold","chip":{"weight":0.10,"since":1e3}}`;
  const machine = await shopWith(({ method }, response) =>
    method === 'POST' ? reply(response, 201, pet) : reply(response, 200, `[${pet}]`),
  );
  expect((await machine.pets(['list', '--json'])).stdout).toBe(`[${pet}]\n`);
  expect((await machine.pets(['list', '--ndjson'])).stdout).toBe(`${pet}\n`);
  expect((await machine.pets(['add', 'Rex', '--category', BIG, '--json'])).stdout).toBe(`${pet}\n`);
});
