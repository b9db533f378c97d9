import { expect, test } from 'vitest';
import { manualClock } from '../helpers/clock.ts';
import { create, start } from '../helpers/service.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import { noLock, openJournalStore } from '../helpers/store-fixtures.ts';

const BODY = '{"name":"Rex","categoryId":1}';
const KEYED = create(BODY, { 'Idempotency-Key': '"k"' });

/** Starts a service and adds one animal. From then on, the calls of its disk that match `fails` fail with `errno`. */
async function startWithOne(errno: 'ENOSPC' | 'EIO', fails: RegExp) {
  const disk = new SimulatedDisk(() => 0);
  const store = await openJournalStore({
    directory: '/store',
    files: disk,
    clock: manualClock(),
    lock: noLock,
  });
  const service = await start({ store });
  await service.call('/v1/pets', KEYED);
  disk.fate = (_, name) => (fails.test(name) ? { errno } : undefined);
  const outcome = async (path: string, init?: RequestInit) => {
    const response = await service.call(path, init);
    const { code } = (await response.json()) as { code?: string };
    return [response.status, code, response.headers.get('Retry-After')];
  };
  return { disk, clock: service.clock, outcome };
}

test('on a full disk, creations and /readyz are refused until there is space, and reads and replays continue', async () => {
  const { disk, clock, outcome } = await startWithOne('ENOSPC', /^write$/);
  const refused = [503, 'storage_full', '5'];
  expect(await outcome('/v1/pets', create(BODY))).toEqual(refused);
  clock.advance(1_000);
  expect(await outcome('/readyz')).toEqual(refused);
  for (const path of ['/v1/pets', '/v1/pets/1', '/healthz', '/openapi.json']) {
    expect(await outcome(path), path).toEqual([200, undefined, null]);
  }
  expect(await outcome('/v1/pets', KEYED)).toEqual([201, undefined, null]);
  expect(await outcome('/v1/pets', create('{}'))).toEqual([400, 'invalid_request', null]);
  disk.fate = () => undefined;
  clock.advance(1_000);
  expect(await outcome('/readyz')).toEqual([200, undefined, null]);
  expect(await outcome('/v1/pets', create(BODY))).toEqual([201, undefined, null]);
});

test('after an I/O error, every request that needs the store gets storage_failed', async () => {
  const { disk, outcome } = await startWithOne('EIO', /^datasync$/);
  const failed = [503, 'storage_failed', null];
  expect(await outcome('/v1/pets', create(BODY))).toEqual(failed);
  disk.fate = () => undefined;
  for (const path of ['/v1/pets', '/v1/pets/1', '/readyz']) expect(await outcome(path), path).toEqual(failed);
  for (const init of [create(BODY), KEYED]) expect(await outcome('/v1/pets', init)).toEqual(failed);
});
