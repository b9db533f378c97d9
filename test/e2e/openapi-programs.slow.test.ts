import { copyFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operations } from '../../src/contract/operations.ts';
import { installPackages, runProgram } from '../helpers/npm-packages.ts';
import { type Machine, makeMachine, type RunningService, serve } from '../helpers/pets.ts';

// These tests check the OpenAPI document and a running service with programs of other projects that read such documents.
// The programs are not development dependencies, because together they need 800 packages. Portman does not declare that it
// needs tslib. The versions of orval and openapi-ts are the last ones for Node 20.

const PACKAGES = [
  'dredd@14.1.0',
  '@apideck/portman@1.33.0',
  'tslib@2.8.1',
  '@apidevtools/swagger-parser@13.0.0',
  '@redocly/cli@2.77.0',
  '@stoplight/spectral-cli@6.16.3',
  'orval@7.13.2',
  '@hey-api/openapi-ts@0.95.0',
];

let machine: Machine;
let dispose: () => Promise<void>;
let service: RunningService;
let directory: string | undefined;
let document: Document;

type Document = { paths: Record<string, Record<string, { responses: object }>> };

beforeAll(async () => {
  directory = await installPackages(PACKAGES);
  if (directory === undefined) return;
  // Without this file, tsx and openapi-ts would read one in a directory above.
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

/** Writes a file into that directory. */
const write = (name: string, text: string) => writeFile(join(directory ?? '', name), text);

/** Runs a script in TypeScript in that directory, and returns the JSON that it prints. */
async function runScript(name: string, text: string): Promise<unknown> {
  await write(name, text);
  const tsx = join(import.meta.dirname, '..', '..', 'node_modules', 'tsx', 'dist', 'cli.mjs');
  const { code, output } = await runProgram(process.execPath, [tsx, name], directory ?? '');
  expect([code, output]).toEqual([0, expect.stringContaining('{')]);
  return JSON.parse(output);
}

const describedOperations = () => Object.values(document.paths).flatMap((item) => Object.values(item));

test('@apidevtools/swagger-parser, Redocly and Spectral find no problem', async ({ skip }) => {
  if (directory === undefined) return skip('npm cannot install the programs');
  const parse =
    "import parser from '@apidevtools/swagger-parser';\nconsole.log(JSON.stringify(await parser.validate('openapi.json')));";
  expect(await runScript('parse.mts', parse)).toHaveProperty('openapi', '3.1.0');
  const redocly = await run('redocly', 'lint', 'openapi.json');
  expect(redocly).toMatchObject({
    code: 0,
    output: expect.stringContaining('Your API description is valid'),
  });
  expect(redocly.output).not.toMatch(/\d+ warnings?/);
  // There is no address for questions about the API.
  await write('.spectral.yaml', 'extends: ["spectral:oas"]\nrules: { info-contact: off }\n');
  const spectral = await run('spectral', 'lint', '--fail-severity', 'hint', 'openapi.json');
  expect(spectral).toMatchObject({ code: 0, output: expect.stringContaining('No results') });
});

/** What one call of every operation and a second creation returned. */
const outcome = {
  statuses: {
    ...Object.fromEntries(Object.entries(operations).map(([name, { success }]) => [name, success.status])),
    secondCreation: 201,
  },
  isAnotherAnimal: true,
  replayed: [null, null],
  name: 'Rex',
};

/** The end of a script that has called each function of a generated client, and prints its outcomes by their names. */
const printOutcome = `
const { createPet, secondCreation, getPet } = results;
console.log(JSON.stringify({
  statuses: Object.fromEntries(Object.entries(results).map(([name, { status }]) => [name, status])),
  isAnotherAnimal: createPet.data.id < secondCreation.data.id,
  replayed: [createPet, secondCreation].map(({ headers }) => headers.get('Idempotency-Replayed')),
  name: getPet.data.name,
}));`;

test('the client that orval generates calls every operation', async ({ skip }) => {
  if (directory === undefined) return skip('npm cannot install orval');
  const output = { target: 'orval.ts', client: 'fetch', baseUrl: { getBaseUrlFromSpecification: true } };
  await write(
    'orval.cjs',
    `module.exports = ${JSON.stringify({ pets: { input: 'openapi.json', output } })};`,
  );
  const { code, output: text } = await run('orval', '--config', 'orval.cjs');
  expect(code, text).toBe(0);
  const script = `
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
${printOutcome}`;
  expect(await runScript('use-orval.mts', script)).toEqual(outcome);
});

test('the client that hey-api generates calls every operation', async ({ skip }) => {
  if (directory === undefined) return skip('npm cannot install openapi-ts');
  const { code, output } = await run('openapi-ts', '-i', 'openapi.json', '-o', 'hey-api');
  expect(code, output).toBe(0);
  const script = `
import * as client from './hey-api/index.ts';
const auth = '${service.key}';
const body = { name: 'Rex', categoryId: 3, status: 'available' };
const resultOf = async (call) => {
  const { data, response: { status, headers } } = await call;
  return { data, status, headers };
};
const results = {
  listPets: await resultOf(client.listPets({ auth, query: { limit: 2 } })),
  createPet: await resultOf(client.createPet({ auth, body })),
  secondCreation: await resultOf(client.createPet({ auth, body })),
  listOrders: await resultOf(client.listOrders({ auth })),
};
results.getPet = await resultOf(client.getPet({ auth, path: { petId: results.createPet.data.id } }));
${printOutcome}`;
  expect(await runScript('use-hey-api.mts', script)).toEqual(outcome);
});

test('Dredd gets every documented response of every operation', async ({ skip }) => {
  if (directory === undefined) return skip('npm cannot install Dredd');
  await copyFile(new URL('../fixtures/dredd-hooks.cjs', import.meta.url), join(directory, 'hooks.cjs'));
  const key = `Authorization: Bearer ${service.key}`;
  const { code, output } = await run('dredd', 'openapi.json', service.url, '-h', key, '-f', 'hooks.cjs');
  const count = describedOperations().flatMap(({ responses }) => Object.keys(responses)).length;
  expect(output).toContain(`${count} passing, 0 failing, 0 errors, 0 skipped, ${count} total`);
  expect(code).toBe(0);
});

test('the requests that Portman generates succeed at the address in the document', async ({ skip }) => {
  if (directory === undefined) return skip('npm cannot install Portman');
  const checks = ['statusSuccess', 'contentType', 'jsonBody', 'schemaValidation', 'headersPresent'];
  const configuration = {
    version: 1,
    tests: {
      contractTests: checks.map((name) => ({ openApiOperation: '*::/*', [name]: { enabled: true } })),
    },
    globals: { securityOverwrites: { bearer: { token: service.key } } },
  };
  await writeFile(join(directory, 'portman.json'), JSON.stringify(configuration));
  const { code, output } = await run('portman', '-l', 'openapi.json', '-c', 'portman.json', '--runNewman');
  expect(output).toMatch(new RegExp(`requests │ +${describedOperations().length} │ +0 │`));
  expect(output).toMatch(/assertions │ +[1-9]\d* │ +0 │/);
  expect(code).toBe(0);
});
