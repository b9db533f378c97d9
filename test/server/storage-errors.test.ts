import { expect, test } from 'vitest';
import { openJournalStore } from '../../src/store/journal/journal-store.ts';
import { manualClock } from '../helpers/clock.ts';
import { create, start } from '../helpers/service.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import { noLock } from '../helpers/store-fixtures.ts';

const BODY = '{"name":"Rex","categoryId":1}';
const KEYED = create(BODY, { 'Idempotency-Key': '"k"' });

/** Starts a service and adds one animal. From then on, the calls of its disk that match `fails` fail with `errno`. */
async function startWithOne(errno: 'ENOSPC' | 'EIO', fails: RegExp) {
  const disk = new SimulatedDisk(() => 0);
  const clock = manualClock();
  const store = await openJournalStore({ directory: '/store', files: disk, clock, lock: noLock });
  const service = await start({ store });
  await service.call('/v1/pets', KEYED);
  disk.fate = (_, name) => (fails.test(name) ? { errno } : undefined);
  const outcome = async (path: string, init?: RequestInit) => {
    const response = await service.call(path, init);
    const { code } = (await response.json()) as { code?: string };
    return [response.status, code, response.headers.get('Retry-After')];
  };
  return { disk, clock, outcome };
}

test.each([
  ['ENOSPC', /^write$/, [503, 'storage_full', '5'], true],
  ['EIO', /^datasync$/, [503, 'storage_failed', null], false],
] as const)(
  'after %s, creations and /readyz are refused, and reads and replays continue',
  async (errno, fails, refused, recovers) => {
    const { disk, clock, outcome } = await startWithOne(errno, fails);
    expect(await outcome('/v1/pets', create(BODY))).toEqual(refused);
    expect(await outcome('/readyz')).toEqual(refused);
    for (const path of ['/v1/pets', '/v1/pets/1', '/healthz', '/openapi.json']) {
      expect(await outcome(path), path).toEqual([200, undefined, null]);
    }
    expect(await outcome('/v1/pets', KEYED)).toEqual([201, undefined, null]);
    expect(await outcome('/v1/pets', create('{}'))).toEqual([400, 'invalid_request', null]);
    disk.fate = () => undefined;
    clock.advance(1_000);
    expect(await outcome('/readyz')).toEqual(recovers ? [200, undefined, null] : refused);
    expect(await outcome('/v1/pets', create(BODY))).toEqual(recovers ? [201, undefined, null] : refused);
  },
);
