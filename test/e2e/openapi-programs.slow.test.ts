import { copyFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { installPackages, runProgram } from '../helpers/npm-packages.ts';
import { type Machine, makeMachine, type RunningService, serve } from '../helpers/pets.ts';

// These tests check a running service with programs of other projects that read its OpenAPI document. The programs are not
// development dependencies: Dredd is no longer maintained, and Portman needs 300 packages. Portman does not declare that
// it needs tslib.

const PACKAGES = ['dredd@14.1.0', '@apideck/portman@1.33.0', 'tslib@2.8.1'];

let machine: Machine;
let dispose: () => Promise<void>;
let service: RunningService;
let directory: string | undefined;
let document: Document;

type Document = { paths: Record<string, Record<string, { responses: object }>> };

beforeAll(async () => {
  directory = await installPackages(PACKAGES);
  if (directory === undefined) return;
  ({ machine, dispose } = await makeMachine());
  service = await serve(machine, ['--ephemeral', '--seed', '--plan', 'enterprise', '--no-profile']);
  const text = await (await fetch(new URL('/openapi.json', service.url))).text();
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

const operations = () => Object.values(document.paths).flatMap((item) => Object.values(item));

test('Dredd gets every documented response of every operation', async ({ skip }) => {
  if (directory === undefined) return skip('npm cannot install Dredd');
  await copyFile(new URL('../fixtures/dredd-hooks.cjs', import.meta.url), join(directory, 'hooks.cjs'));
  const key = `Authorization: Bearer ${service.key}`;
  const { code, output } = await run('dredd', 'openapi.json', service.url, '-h', key, '-f', 'hooks.cjs');
  const count = operations().flatMap(({ responses }) => Object.keys(responses)).length;
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
  expect(output).toMatch(new RegExp(`requests │ +${operations().length} │ +0 │`));
  expect(output).toMatch(/assertions │ +[1-9]\d* │ +0 │/);
  expect(code).toBe(0);
});
