import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createKnownService, type KnownService } from '../../src/client/known-service.ts';
import { createMarks } from '../../src/client/marks.ts';
import { add, failureOf, KEY, list, PET, testClient } from '../helpers/client.ts';
import { manualClock } from '../helpers/clock.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const DAY = 86_400_000;
const ORIGIN = 'https://shop.example';

async function machine() {
  const directory = await temporaryDirectory();
  const clock = manualClock();
  const process = (baseUrl = `${ORIGIN}/v1`, key = KEY) =>
    createKnownService({ baseUrl, key }, createMarks(directory, clock), clock);
  return { directory, clock, process };
}

/** Every name below a directory. */
const namesIn = async (directory: string) =>
  (await readdir(directory, { recursive: true, withFileTypes: true })).map(({ name }) => name);

describe('a cool-down belongs to one key at one origin', () => {
  test.each([
    ['another process', `${ORIGIN}/v1`, KEY, true],
    ['another path', `${ORIGIN}/v2`, KEY, true],
    ['the port by its number', `${ORIGIN}:443/v1`, KEY, true],
    ['another key', `${ORIGIN}/v1`, 'pets_other', false],
    ['another port', `${ORIGIN}:8443/v1`, KEY, false],
    ['another protocol', 'http://shop.example/v1', KEY, false],
    ['another host', 'https://shop.example.com/v1', KEY, false],
  ])('%s', async (_name, baseUrl, key, isShared) => {
    const { process, clock } = await machine();
    process().coolDown.note(clock.now() + 1_000);
    expect(process(baseUrl, key).coolDown.until() > clock.now()).toBe(isShared);
  });
});

test('neither the key nor the origin can be read in any name', async () => {
  const { process, clock, directory } = await machine();
  const service = process();
  service.coolDown.note(clock.now() + 1_000);
  service.noteIdempotency(true);
  service.isNewToday('getPet');
  const names = await namesIn(directory);
  expect(names).toHaveLength(5);
  for (const name of names) {
    for (const secret of [
      KEY,
      'shop',
      'https',
      Buffer.from(KEY).toString('base64'),
      Buffer.from(KEY).toString('hex'),
    ]) {
      expect(name).not.toContain(secret);
    }
  }
});

describe('whether the service honours the idempotency key', () => {
  test('is known to every process and every key of its origin, and forgotten by all', async () => {
    const { process } = await machine();
    const of = (service: KnownService) => service.honoursIdempotency();
    expect(of(process())).toBe(false);
    process().noteIdempotency(true);
    expect([of(process()), of(process(`${ORIGIN}/v1`, 'pets_other'))]).toEqual([true, true]);
    expect(of(process('https://other.example/v1'))).toBe(false);
    process().noteIdempotency(false);
    expect(of(process())).toBe(false);
  });

  const error = { code: 'a_code', message: 'no', status: 0 };
  test.each<[string, boolean, number, Record<string, string>, boolean]>([
    ['a success with the header shows it', false, 200, { 'Idempotency-Supported': 'true' }, true],
    ['a refusal with the header too', false, 401, { 'Idempotency-Supported': 'true' }, true],
    ['a failure with the header too', false, 503, { 'Idempotency-Supported': 'true' }, true],
    [
      'a success that says no other word shows nothing',
      false,
      200,
      { 'Idempotency-Supported': 'yes' },
      false,
    ],
    ['a success without it shows that it does no more', true, 200, {}, false],
    ['a success that denies it too', true, 200, { 'Idempotency-Supported': 'false' }, false],
    ['a failure of its own without it too', true, 503, {}, false],
    ['a page of what stands between shows nothing', true, 502, {}, true],
    ['a 404 without it too', true, 404, {}, true],
    ['a 429 without it too', true, 429, {}, true],
  ])('%s', async (_name, before, status, headers, behind) => {
    const directory = await temporaryDirectory();
    const clock = manualClock();
    const server = await scriptedServer((_, response) =>
      reply(response, status, status === 200 ? [] : status === 502 ? '<html>' : error, headers),
    );
    const start = () =>
      testClient(server.url, { clock, marks: createMarks(directory, clock), maxWaitMilliseconds: undefined });
    start().service.noteIdempotency(before);
    await list(start().client).catch(() => {});
    expect(start().service.honoursIdempotency()).toBe(behind);
  });

  test('what one process has learnt, another repeats a creation by', async () => {
    const directory = await temporaryDirectory();
    const clock = manualClock();
    const supported = { 'Idempotency-Supported': 'true' };
    const server = await scriptedServer((request, response, count) => {
      if (count === 1) reply(response, 200, [], supported);
      else if (count === 2) request.socket.destroy();
      else reply(response, 201, PET, supported);
    });
    const start = () => testClient(server.url, { clock, marks: createMarks(directory, clock) });
    await list(start().client);
    await add(start().client);
    expect(server.requests).toHaveLength(3);
    expect(server.requests[2]?.headers['idempotency-key']).toBe(
      server.requests[1]?.headers['idempotency-key'],
    );
  });

  test('is not forgotten by a creation that a captive portal answers', async () => {
    const directory = await temporaryDirectory();
    const clock = manualClock();
    const server = await scriptedServer((_, response) => reply(response, 511, '<html>'));
    const start = () => testClient(server.url, { clock, marks: createMarks(directory, clock) });
    start().service.noteIdempotency(true);
    expect(await failureOf(add(start().client))).toMatchObject({ honoured: true });
    expect(start().service.honoursIdempotency()).toBe(true);
  });
});

describe('what is told once a day', () => {
  test('is new the first time on a day, by UTC, for each of them', async () => {
    const { process, clock } = await machine();
    clock.set('2026-11-20T00:00:00Z');
    expect(process().isNewToday('getPet')).toBe(true);
    expect(process().isNewToday('getPet')).toBe(false);
    expect(process().isNewToday('listPets')).toBe(true);
    expect(process(`${ORIGIN}/v1`, 'pets_other').isNewToday('getPet')).toBe(false);
    expect(process('https://other.example/v1').isNewToday('getPet')).toBe(true);
    clock.set('2026-11-20T23:59:59.999Z');
    expect(process().isNewToday('getPet')).toBe(false);
    clock.set('2026-11-21T00:00:00Z');
    for (const isNew of [true, false]) {
      for (const what of ['getPets', 'getPet']) expect(process().isNewToday(what)).toBe(isNew);
    }
  });

  test('leaves one mark, however many days it was told on', async () => {
    const { process, clock, directory } = await machine();
    process().noteIdempotency(true);
    for (let day = 0; day < 5; day++) {
      process().isNewToday('getPet');
      process().isNewToday('getPets');
      clock.advance(DAY);
    }
    const marks = (await namesIn(directory)).filter((name) => !name.startsWith('service-'));
    expect(marks.sort()).toEqual([
      'getPet-told-2026-11-24',
      'getPets-told-2026-11-24',
      'honours-idempotency-key-2026-11-20',
    ]);
  });
});

test('services of a month ago are forgotten when another is met', async () => {
  const { process, clock, directory } = await machine();
  process().noteIdempotency(true);
  const old = new Date(clock.now() - 31 * DAY);
  for (const group of await readdir(directory)) await utimes(join(directory, group), old, old);
  expect(process().honoursIdempotency()).toBe(true);
  process('https://other.example/v1').noteIdempotency(true);
  expect(process().honoursIdempotency()).toBe(false);
});

test('a state directory that is broken leaves one process what it has learnt itself', async () => {
  const directory = await temporaryDirectory();
  const clock = manualClock();
  await mkdir(join(directory, 'state'));
  await writeFile(join(directory, 'state', 'services'), 'no directory');
  const marks = () => createMarks(join(directory, 'state', 'services'), clock);
  const server = await scriptedServer((_, response, count) =>
    reply(response, count === 1 ? 503 : 201, PET, { 'Idempotency-Supported': 'true' }),
  );
  const { client } = testClient(server.url, { clock, marks: marks() });
  await add(client);
  expect(server.requests).toHaveLength(2);
});
