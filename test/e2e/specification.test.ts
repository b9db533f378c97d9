import { afterAll, beforeAll, expect, test } from 'vitest';
import { operations } from '../../src/contract/operations.ts';
import { type Machine, makeMachine, serve } from '../helpers/pets.ts';
import { createSpecificationCheck, specificationCases } from '../helpers/specification.ts';

// These tests validate the responses of a running `pets serve` against the OpenAPI document that the service serves. The
// tests in test/server/ check the rules of docs/service.md.

let machine: Machine;
let dispose: () => Promise<void>;
let check: Awaited<ReturnType<typeof createSpecificationCheck>>;

beforeAll(async () => {
  ({ machine, dispose } = await makeMachine());
  const service = await serve(machine, ['--ephemeral', '--seed', '--plan', 'business']);
  check = await createSpecificationCheck(service);
});
afterAll(() => dispose());

test('every operation has a case in which it succeeds', () => {
  const succeeding = specificationCases
    .filter(({ status }) => status < 300)
    .map(({ request, path }) => `${request.method} ${path.replace(/\?.*/, '')}`);
  for (const { method, path } of Object.values(operations)) {
    const example = `${method} ${path.replace(/\{\w+\}/, '1')}`;
    expect(succeeding).toContain(example);
  }
});

test.each(specificationCases.map((each) => [each.name, each] as const))('%s', (_, each) => check(each));
