import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createServiceState } from '../../src/client/service-state.ts';
import { createSharedFlags } from '../../src/client/shared-flags.ts';
import { KEY, list, testClient } from '../helpers/client.ts';
import { manualClock } from '../helpers/clock.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const ORIGIN = 'https://shop.example';

async function machine() {
  const directory = await temporaryDirectory();
  const clock = manualClock();
  const process = (baseUrl = `${ORIGIN}/v1`, key = KEY) =>
    createServiceState(
      { baseUrl, key },
      createSharedFlags([{ path: directory, isTemporary: false }], clock),
      clock,
    );
  return { directory: join(directory, 'services'), clock, process };
}

/** The names of all files and directories below a directory. */
const namesIn = async (directory: string) =>
  (await readdir(directory, { recursive: true, withFileTypes: true })).map(({ name }) => name);

test.each([
  ['another process', `${ORIGIN}/v1`, KEY, true],
  ['another path', `${ORIGIN}/v2`, KEY, true],
  ['the default port', `${ORIGIN}:443/v1`, KEY, true],
  ['another key', `${ORIGIN}/v1`, 'pets_other', false],
  ['another port', `${ORIGIN}:8443/v1`, KEY, false],
  ['another protocol', 'http://shop.example/v1', KEY, false],
  ['another host', 'https://shop.example.com/v1', KEY, false],
])('a cool-down applies to one key at one origin: %s', async (_name, baseUrl, key, isShared) => {
  const { process, clock } = await machine();
  process().coolDown.extend(clock.now() + 1_000);
  expect(process(baseUrl, key).coolDown.until() > clock.now()).toBe(isShared);
});

test('no file name contains the key or the origin', async () => {
  const { process, clock, directory } = await machine();
  const service = process();
  service.coolDown.extend(clock.now() + 1_000);
  service.recordIdempotencySupport(true);
  service.claimDailyNotice('getPet');
  const names = await namesIn(directory);
  expect(names).toHaveLength(5);
  const encoded = (['base64', 'hex'] as const).map((encoding) => Buffer.from(KEY).toString(encoding));
  for (const secret of [KEY, 'shop', 'https', ...encoded]) expect(names.join('\n')).not.toContain(secret);
});

describe('support of Idempotency-Key', () => {
  test('is recorded for all processes and keys of an origin', async () => {
    const { process } = await machine();
    expect(process().supportsIdempotency()).toBe(false);
    process().recordIdempotencySupport(true);
    expect(process().supportsIdempotency()).toBe(true);
    expect(process(`${ORIGIN}/v1`, 'pets_other').supportsIdempotency()).toBe(true);
    expect(process('https://other.example/v1').supportsIdempotency()).toBe(false);
    process().recordIdempotencySupport(false);
    expect(process().supportsIdempotency()).toBe(false);
  });

  const supported = { 'Idempotency-Supported': 'true' };
  const withValue = (value: string) => ({ 'Idempotency-Supported': value });
  test.each<[string, number, Record<string, string>, before: boolean, after: boolean]>([
    ['a success with the header', 200, supported, false, true],
    ['401 with the header', 401, supported, false, true],
    ['503 with the header', 503, supported, false, true],
    ['a success with another value', 200, withValue('yes'), false, false],
    ['a success without the header', 200, {}, true, false],
    ['a success with false', 200, withValue('false'), true, false],
    ['503 without the header', 503, {}, true, false],
    ['503 of a server that starts', 503, { code: 'starting' }, true, true],
    ['502 of a proxy', 502, {}, true, true],
    ['511 of a captive portal', 511, {}, true, true],
    ['404 without the header', 404, {}, true, true],
    ['429 without the header', 429, {}, true, true],
  ])('after %s', async (_name, status, { code = 'a_code', ...headers }, before, after) => {
    const error = { code, message: 'no', status: 0 };
    const server = await scriptedServer((_, response) =>
      reply(response, status, status === 200 ? [] : [502, 511].includes(status) ? '<html>' : error, headers),
    );
    const { client, service } = testClient(server.url, { supportsIdempotency: before });
    await list(client).catch(() => {});
    expect(service.supportsIdempotency()).toBe(after);
  });

  test('ends after a day', async () => {
    const { process, clock } = await machine();
    process().recordIdempotencySupport(true);
    clock.set('2026-11-21T23:59:59Z');
    expect(process().supportsIdempotency()).toBe(true);
    clock.set('2026-11-22T00:00:00Z');
    expect(process().supportsIdempotency()).toBe(false);
  });
});

test('a daily notice can be claimed once per operation, origin and day (UTC), and leaves one flag per operation', async () => {
  const { process, clock, directory } = await machine();
  clock.set('2026-11-20T00:00:00Z');
  expect(process().claimDailyNotice('getPet')).toBe(true);
  expect(process().claimDailyNotice('getPet')).toBe(false);
  expect(process().claimDailyNotice('listPets')).toBe(true);
  expect(process(`${ORIGIN}/v1`, 'pets_other').claimDailyNotice('getPet')).toBe(false);
  expect(process('https://other.example/v1').claimDailyNotice('getPet')).toBe(true);
  clock.set('2026-11-20T23:59:59.999Z');
  expect(process().claimDailyNotice('getPet')).toBe(false);
  clock.set('2026-11-21T00:00:00Z');
  for (const isNew of [true, false]) {
    for (const operation of ['getPets', 'getPet']) {
      expect(process().claimDailyNotice(operation)).toBe(isNew);
    }
  }
  expect((await namesIn(directory)).filter((name) => name.includes('told')).sort()).toEqual([
    'getPet-told-2026-11-20',
    'getPet-told-2026-11-21',
    'getPets-told-2026-11-21',
    'listPets-told-2026-11-20',
  ]);
});

test('a probe is allowed once a minute across processes during a cool-down, and always without one', async () => {
  const { process, clock } = await machine();
  const probe = () => process().tryAcquireProbe();
  expect([probe(), probe()]).toEqual([true, true]);
  process().coolDown.extend(clock.now() + 600_000);
  expect([probe(), probe()]).toEqual([true, false]);
  clock.advance(59_999);
  expect(probe()).toBe(false);
  clock.advance(1);
  expect([probe(), probe()]).toEqual([true, false]);
});
