import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { HONOURED, service, shop } from '../helpers/bulk-shop.ts';
import { reply } from '../helpers/scripted-server.ts';
import { KEY, start } from '../helpers/service.ts';

const HOUR = 3_600_000;

/** The progress file below a directory. */
async function progressOf(directory: string): Promise<string> {
  const names = await readdir(directory, { recursive: true });
  return join(directory, names.find((name) => name.endsWith('progress.ndjson')) ?? '');
}

/** Moves every send of earlier runs into the past, or with negative hours into the future. */
async function backdate(directory: string, hours: number): Promise<void> {
  const path = await progressOf(directory);
  const text = await readFile(path, 'utf8');
  const earlier = (_: string, time: string) =>
    `"sentAt":"${new Date(Date.parse(time) - hours * HOUR).toISOString()}"`;
  await writeFile(path, text.replace(/"sentAt":"([^"]+)"/g, earlier));
}

const lines = (stdout: string) =>
  stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t').slice(1, 4).join(' '));

const ALL = ['added 1 Rex', 'added 2 Bella', 'added 3 Lola'];

/** Answers the second row so as long as it is to be refused. */
function refusing(status: number, headers: Record<string, string> = {}) {
  const state = { isOn: true };
  const answer: Parameters<typeof service>[0] = (name, response) => {
    if (name !== 'Bella' || !state.isOn) return false;
    reply(response, status, { code: 'refused', message: 'no', status }, headers);
    return true;
  };
  return { state, answer };
}

describe('a row that was certainly not added is never told as one in doubt', () => {
  test.each([
    ['a rejected key', 401, {}, {}],
    ['a rejected key, and another one then', 401, {}, { PETS_API_KEY: 'pets_new' }],
    ['a wrong address', 404, {}, {}],
    ['an interrupt in the pause behind a refusal', 429, { 'Retry-After': '30' }, {}],
  ])('%s', async (_name, status, headers, env) => {
    const { state, answer } = refusing(status, headers);
    // It would count: this service honours no key.
    const { url, added } = await service(answer, {});
    const { add, directory } = await shop(url);
    const first = await add([], { onSleep: (_milliseconds, raise) => raise('SIGINT') });
    expect(first.code).not.toBe(0);
    state.isOn = false;
    await backdate(directory, 48);
    await rm(join(directory, 'state', 'pets', 'services'), { recursive: true, force: true });
    const second = await add([], { env });
    expect({ code: second.code, results: lines(second.stdout).map((line) => line.split(' ')[0]) }).toEqual({
      code: 0,
      results: ['added', 'added', 'added'],
    });
    expect(new Set([...added.values()].map(({ name }) => name)).size).toBe(3);
  });

  test('a day that was used up, two days later', async () => {
    const real = await start({ quota: { perMinute: 10, perDay: 3 } });
    const { add, directory } = await shop(`${real.listening.origin}/v1`);
    expect(await add()).toMatchObject({ code: 5 });
    expect(real.answered.filter(({ method }) => method === 'POST')).toHaveLength(2);
    await backdate(directory, 48);
    await rm(join(directory, 'state', 'pets', 'services'), { recursive: true });
    real.clock.advance(24 * HOUR);
    const second = await add();
    expect({ code: second.code, results: lines(second.stdout) }).toEqual({ code: 0, results: ALL });
  });

  test('nothing is noted of a row that still waits for its turn', async () => {
    const reset = String(Date.parse('2026-11-20T12:00:30Z') / 1_000);
    const spent = { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': reset };
    const { url, names } = await service(() => false, { ...spent, Date: 'Fri, 20 Nov 2026 12:00:00 GMT' });
    const { add, directory } = await shop(url);
    // The question in front of the first row has spent the window.
    expect(await add([], { onSleep: (_milliseconds, raise) => raise('SIGINT') })).toMatchObject({
      code: 130,
    });
    expect(await readFile(await progressOf(directory), 'utf8')).not.toContain('"sending"');
    expect(names()).toEqual([]);
  });
});

describe('a row that was sent without an answer', () => {
  /** A run that has lost the answer to the second row; `isLost` says whether it would be lost again. */
  async function lostAnswer(headers = HONOURED) {
    const state = { isLost: true, refuse: 0 };
    const made = await service((name, response) => {
      if (name !== 'Bella') return false;
      if (state.isLost) response.destroy();
      else if (state.refuse)
        reply(response, state.refuse, { code: 'no', message: 'no', status: 400 }, headers);
      return state.isLost || state.refuse > 0;
    }, headers);
    const { add, directory } = await shop(made.url);
    const first = await add();
    expect(first.code).toBe(6);
    state.isLost = false;
    return { ...made, state, add, directory, first };
  }

  test.each([
    [22, 'added 2 Bella', 0],
    [24, 'unknown  Bella', 8],
    [-1, 'unknown  Bella', 8],
  ])('is repeated after %i hours or not: %s', async (hours, result, code) => {
    const { add, directory, names } = await lostAnswer();
    const before = names().length;
    await backdate(directory, hours);
    const second = await add();
    expect([second.code, lines(second.stdout)[1]]).toEqual([code, result]);
    expect(names().slice(before)).toEqual(code === 0 ? ['Bella', 'Lola'] : ['Lola']);
  });

  test('and is then refused stays unknown: the first send may have succeeded', async () => {
    const { add, state, creations } = await lostAnswer();
    state.refuse = 400;
    const second = await add();
    expect([second.code, lines(second.stdout)[1]]).toEqual([8, 'unknown  Bella']);
    const before = creations().length;
    state.refuse = 0;
    expect((await add()).code).toBe(8);
    expect(creations()).toHaveLength(before);
  });

  test('ends the run with the command that goes on, and no option that add --from does not have', async () => {
    const { first } = await lostAnswer();
    expect(first.stderr).not.toContain('--idempotency-key');
    expect(first.stderr.trimEnd().split('\n').at(-1)).toContain('to go on: pets add --from');
  });

  test('is in doubt also where Ctrl-C came before the answer, and told so where no repetition is known', async () => {
    const interrupt = { raise: (_signal: 'SIGINT') => {} };
    const { url, names } = await service((name) => {
      if (name !== 'Bella') return false;
      interrupt.raise('SIGINT');
      return true;
    }, {});
    const { startAdd, add } = await shop(url);
    const running = await startAdd();
    interrupt.raise = running.raise;
    expect(await running.ended).toBe(130);
    interrupt.raise = () => {};
    const second = await add();
    expect([second.code, lines(second.stdout)[1]]).toEqual([8, 'unknown  Bella']);
    expect(names()).toEqual(['Rex', 'Bella', 'Lola']);
  });
});

test('a key that the service puts into its refusal is not kept with the row', async () => {
  const { url } = await service((name, response) => {
    if (name === 'Bella') reply(response, 413, { code: KEY, message: KEY, status: 413 }, HONOURED);
    return name === 'Bella';
  });
  const { add, directory } = await shop(url);
  const { code, stdout } = await add();
  expect([code, lines(stdout)]).toEqual([8, ['added 1 Rex', 'failed  Bella', 'added 3 Lola']]);
  expect(await readFile(await progressOf(directory), 'utf8')).not.toContain(KEY);
});
