import { copyFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operations } from '../../src/contract/operations.ts';
import { installPackages, runProgram } from '../helpers/npm-packages.ts';
import { type Machine, makeMachine, type RunningService, serve } from '../helpers/pets.ts';

// These tests check the OpenAPI document and a running service with programs of other projects that read such
// documents. test/server/openapi-document.test.ts runs the linter of Redocly, and openapi-responses.test.ts validates
// responses. The programs are not development dependencies, because they need hundreds of packages. The version of
// orval is the last one for Node 20.

const PACKAGES = ['dredd@14.1.0', 'orval@7.13.2'];

let machine: Machine;
let dispose: () => Promise<void>;
let service: RunningService;
let directory: string | undefined;
let document: Document;

type Document = { paths: Record<string, Record<string, { responses: object }>> };

beforeAll(async () => {
  directory = await installPackages(PACKAGES);
  if (directory === undefined) return;
  // Without this file, tsx would read one in a directory above.
  await write('tsconfig.json', '{}');
  ({ machine, dispose } = await makeMachine());
  service = await serve(machine, ['--ephemeral', '--seed', '--plan', 'enterprise', '--no-profile']);
  const text = await (await fetch(service.openapi)).text();
  await writeFile(join(directory, 'openapi.json'), text);
  document = JSON.parse(text);
}, 300_000);
afterAll(async () => {
  await dispose?.();
  if (directory !== undefined) await rm(directory, { recursive: true });
});

/** Runs an installed program in the directory of the document. */
const run = (program: string, ...args: string[]) =>
  runProgram(join(directory ?? '', 'node_modules', '.bin', program), args, directory ?? '');

/** Writes a file into the directory of the document. */
const write = (name: string, text: string) => writeFile(join(directory ?? '', name), text);

test('the client that orval generates calls every operation', async ({ skip }) => {
  if (directory === undefined) return skip('npm cannot install orval');
  const output = { target: 'orval.ts', client: 'fetch', baseUrl: { getBaseUrlFromSpecification: true } };
  await write(
    'orval.cjs',
    `module.exports = ${JSON.stringify({ pets: { input: 'openapi.json', output } })};`,
  );
  const generated = await run('orval', '--config', 'orval.cjs');
  expect(generated.code, generated.output).toBe(0);
  await write(
    'use-orval.mts',
    `
import * as client from './orval.ts';
const options = { headers: { Authorization: 'Bearer ${service.key}' } };
const rex = { name: 'Rex', categoryId: 3, status: 'available' };
const results = {
  listPets: await client.listPets({ limit: 2 }, options),
  createPet: await client.createPet(rex, options),
  secondCreation: await client.createPet(rex, options),
  listOrders: await client.listOrders(options),
};
results.getPet = await client.getPet(results.createPet.data.id, options);
const { createPet, secondCreation, getPet } = results;
console.log(JSON.stringify({
  statuses: Object.fromEntries(Object.entries(results).map(([name, { status }]) => [name, status])),
  isAnotherAnimal: createPet.data.id < secondCreation.data.id,
  replayed: [createPet, secondCreation].map(({ headers }) => headers.get('Idempotency-Replayed')),
  name: getPet.data.name,
}));`,
  );
  const tsx = join(import.meta.dirname, '..', '..', 'node_modules', 'tsx', 'dist', 'cli.mjs');
  const used = await runProgram(process.execPath, [tsx, 'use-orval.mts'], directory);
  expect([used.code, used.output]).toEqual([0, expect.stringContaining('{')]);
  expect(JSON.parse(used.output)).toEqual({
    statuses: {
      ...Object.fromEntries(Object.entries(operations).map(([name, { success }]) => [name, success.status])),
      secondCreation: 201,
    },
    isAnotherAnimal: true,
    replayed: [null, null],
    name: 'Rex',
  });
});

test('Dredd gets every documented response of every operation', async ({ skip }) => {
  if (directory === undefined) return skip('npm cannot install Dredd');
  await copyFile(new URL('../fixtures/dredd-hooks.cjs', import.meta.url), join(directory, 'hooks.cjs'));
  const key = `Authorization: Bearer ${service.key}`;
  const { code, output } = await run('dredd', 'openapi.json', service.url, '-h', key, '-f', 'hooks.cjs');
  const described = Object.values(document.paths).flatMap((item) => Object.values(item));
  const count = described.flatMap(({ responses }) => Object.keys(responses)).length;
  expect(output).toContain(`${count} passing, 0 failing, 0 errors, 0 skipped, ${count} total`);
  expect(code).toBe(0);
});
