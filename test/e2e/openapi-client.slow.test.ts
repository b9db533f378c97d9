import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { operations } from '../../src/contract/operations.ts';
import { freshMachine, serve } from '../helpers/pets.ts';
import { runProgram } from '../helpers/run-program.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// The last version for Node 20. It is not a development dependency, because it needs hundreds of packages.
const ORVAL = 'orval@7.13.2';
const TSX = join(import.meta.dirname, '..', '..', 'node_modules', 'tsx', 'dist', 'cli.mjs');

/** A program that calls every operation with the generated client, and prints what it got. */
const useClient = (key: string) => `
import * as client from './client.ts';
const options = { headers: { Authorization: 'Bearer ${key}' } };
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
}));`;

// On a busy machine, npm takes minutes.
const TIMEOUT_MS = 600_000;

test('the client that orval generates from /openapi.json calls every operation', {
  timeout: TIMEOUT_MS,
}, async ({ skip }) => {
  const directory = await temporaryDirectory();
  const write = (name: string, text: string) => writeFile(join(directory, name), text);
  await write('package.json', '{ "private": true }');
  // Without this file, tsx would read one in a directory above.
  await write('tsconfig.json', '{}');
  const npm = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', ORVAL];
  skip((await runProgram('npm', npm, { cwd: directory })).code !== 0, 'npm cannot install orval');
  const service = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
  await write('openapi.json', await (await fetch(service.openapi)).text());
  const output = { target: 'client.ts', client: 'fetch', baseUrl: { getBaseUrlFromSpecification: true } };
  const settings = { pets: { input: 'openapi.json', output } };
  await write('orval.cjs', `module.exports = ${JSON.stringify(settings)};`);
  const orval = join(directory, 'node_modules', '.bin', 'orval');
  const generated = await runProgram(orval, ['--config', 'orval.cjs'], { cwd: directory });
  expect(generated.code, generated.output).toBe(0);
  await write('use.mts', useClient(service.key));
  const used = await runProgram(process.execPath, [TSX, 'use.mts'], { cwd: directory });
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
