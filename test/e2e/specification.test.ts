import { expect, test } from 'vitest';
import { operations } from '../../src/contract/operations.ts';
import { freshMachine, serve } from '../helpers/pets.ts';
import { createSpecificationCheck, specificationCases } from '../helpers/specification.ts';

// test/server/ checks the rules of docs/service.md, and every documented response.

test('a running pets serve responds as the OpenAPI document says that it serves', async () => {
  const service = await serve(await freshMachine(), ['--ephemeral', '--seed', '--plan', 'business']);
  const check = await createSpecificationCheck(service);
  for (const each of specificationCases) await check(each);
});

test('every operation has a case in which it succeeds', () => {
  const succeeding = specificationCases
    .filter(([, , , status]) => status < 300)
    .map(([method, path]) => `${method} ${path.replace(/\?.*/, '')}`);
  for (const { method, path } of Object.values(operations)) {
    expect(succeeding).toContain(`${method} ${path.replace(/\{\w+\}/, '1')}`);
  }
});
