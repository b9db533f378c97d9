import { afterAll, beforeAll, test } from 'vitest';
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

test.each(specificationCases.map((each) => [each.name, each] as const))('%s', (_, each) => check(each));
