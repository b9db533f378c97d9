import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { addRefusal, createBans, type Refusals } from '../../src/server/limits/bans.ts';
import { createMemoryLimiter } from '../../src/server/limits/limiter.ts';
import { hashKey } from '../../src/store/keys.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { startReal } from '../helpers/real-service.ts';

describe('which refused requests count', () => {
  const run = (steps: readonly (readonly [resetAt: number, at: number])[]): number => {
    let known: Refusals | undefined;
    for (const [resetAt, at] of steps) known = addRefusal(known, resetAt, at);
    return known?.counted.length ?? 0;
  };
  test.each<[string, (readonly [number, number])[], number]>([
    ["not the window's first", [[60_000, 0]], 0],
    [
      'none within a second of it',
      [
        [60_000, 0],
        [60_000, 1],
        [60_000, 999],
      ],
      0,
    ],
    [
      'each a second after it and later',
      [
        [60_000, 0],
        [60_000, 1_000],
        [60_000, 1_000],
        [60_000, 59_999],
      ],
      3,
    ],
    [
      'not the first of the next window, but those before it',
      [
        [60_000, 10_000],
        [60_000, 50_000],
        [120_000, 61_000],
        [120_000, 61_500],
      ],
      1,
    ],
    [
      'none that is a minute old',
      [
        [9e9, 0],
        [9e9, 1_000],
        [9e9, 60_999],
        [9e9, 61_000],
      ],
      2,
    ],
  ])('%s', (_name, steps, count) => {
    expect(run(steps)).toBe(count);
  });
});

/** A service and a key with 3 requests a minute, all used. */
async function overLimit(...[options]: Parameters<typeof startReal>) {
  const service = await startReal({ time: '2026-11-20T12:00:10Z', ...options });
  const key = await service.makeKey({
    name: 'small',
    plan: 'enterprise',
    quota: { perMinute: 3, perDay: 1_000 },
  });
  const send = async (authorization = `Bearer ${key}`) => {
    const answer = await service.call('/pets', { headers: { Authorization: authorization } });
    const { code = 'ok' } = (await answer.json()) as { code?: string };
    return { code, status: answer.status, headers: Object.fromEntries(answer.headers) };
  };
  const codes = async (count: number) => {
    const all: string[] = [];
    for (let i = 0; i < count; i++) all.push((await send()).code);
    return all;
  };
  expect(await codes(3)).toEqual(['ok', 'ok', 'ok']);
  return { ...service, key, send, codes };
}

const times = (count: number, code: string) => Array.from({ length: count }, () => code);

describe('D9 a key that sends on after a 429', () => {
  test('is banned for 300 s with the 10th refused request that comes a second or more after the first', async () => {
    const { clock, send, codes } = await overLimit();
    // Those that were on their way already do not count, however many they are.
    expect(await codes(50)).toEqual(times(50, 'rate_limited'));
    clock.advance(999);
    expect(await codes(10)).toEqual(times(10, 'rate_limited'));
    clock.advance(1);
    expect(await codes(9)).toEqual(times(9, 'rate_limited'));
    const { status, code, headers } = await send();
    expect([status, code]).toEqual([429, 'key_banned']);
    expect(headers).toMatchObject({
      'retry-after': '300',
      'x-ratelimit-limit': '3',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(clock.now() / 1_000 + 300),
    });
  });

  test('is let in again when the ban ends, which no request during it makes longer', async () => {
    const { clock, send, codes } = await overLimit();
    await codes(1);
    clock.advance(2_000);
    await codes(10);
    for (let second = 0; second < 299; second += 13) {
      const { code, headers } = await send();
      expect([code, headers['retry-after']]).toEqual(['key_banned', String(300 - second)]);
      clock.advance(13_000);
    }
    clock.advance(300_000 - 23 * 13_000 - 1);
    expect(await codes(1)).toEqual(['key_banned']);
    clock.advance(1);
    expect(await codes(4)).toEqual(['ok', 'ok', 'ok', 'rate_limited']);
  });

  test('stays banned after a restart, by a file that only its owner can read', async () => {
    const { clock, key, directory, codes, restart } = await overLimit();
    await codes(1);
    clock.advance(1_000);
    await codes(10);
    const path = join(directory, 'bans.json');
    const until = new Date(clock.now() + 300_000).toISOString();
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual({ [hashKey(key)]: until });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await restart();
    clock.advance(299_999);
    expect(await codes(1)).toEqual(['key_banned']);
    clock.advance(1);
    expect(await codes(1)).toEqual(['ok']);
  });

  test('counts on from the window’s first refusal when a short ban ends within that window', async () => {
    const { clock, codes } = await overLimit({ bans: { after: 3, milliseconds: 4_000 } });
    await codes(1);
    clock.advance(2_000);
    expect(await codes(3)).toEqual([...times(2, 'rate_limited'), 'key_banned']);
    clock.advance(4_000);
    expect(await codes(3)).toEqual([...times(2, 'rate_limited'), 'key_banned']);
  });

  test('hinders no other key, and is not banned by who has not got it', async () => {
    const { clock, key, call, codes } = await overLimit();
    await codes(1);
    clock.advance(2_000);
    for (let i = 0; i < 30; i++) await call('/pets', { headers: { Authorization: `Bearer ${key}x` } });
    expect(await codes(9)).toEqual(times(9, 'rate_limited'));
    expect(await codes(1)).toEqual(['key_banned']);
    expect((await call('/pets')).status).toBe(200);
  });

  test('is not banned while it comes back when Retry-After says so, day after day', async () => {
    const { clock, send } = await overLimit();
    for (let i = 0; i < 2_000; i++) {
      const { code, headers } = await send();
      expect(code).not.toBe('key_banned');
      if (code === 'rate_limited') clock.advance(Number(headers['retry-after']) * 1_000);
    }
    expect(clock.now()).toBeGreaterThan(Date.parse('2026-11-21T00:00:00Z'));
  });

  test('counts what comes within a minute: ten in 54 s ban, ten in 61 s do not', async () => {
    for (const [pause, codesSeen] of [
      [6_000, [...times(9, 'rate_limited'), 'key_banned']],
      [6_800, times(10, 'rate_limited')],
    ] as const) {
      const service = await startReal();
      const key = await service.makeKey({
        name: 'daily',
        plan: 'enterprise',
        quota: { perMinute: 9, perDay: 1 },
      });
      const send = async () => {
        const answer = await service.call('/pets', { headers: { Authorization: `Bearer ${key}` } });
        return ((await answer.json()) as { code?: string }).code;
      };
      await send();
      await send();
      const seen: unknown[] = [];
      for (let i = 0; i < 10; i++) {
        service.clock.advance(pause);
        seen.push(await send());
      }
      expect(seen).toEqual(codesSeen);
    }
  });

  test('is banned after as many and for as long as the service was told; 0 bans nobody', async () => {
    const short = await overLimit({ bans: { after: 2, milliseconds: 5_000 } });
    await short.codes(1);
    short.clock.advance(1_000);
    expect(await short.codes(2)).toEqual(['rate_limited', 'key_banned']);
    expect((await short.send()).headers['retry-after']).toBe('5');
    const never = await overLimit({ bans: { after: 0, milliseconds: 5_000 } });
    await never.codes(1);
    never.clock.advance(1_000);
    expect(await never.codes(200)).toEqual(times(200, 'rate_limited'));
    const rule = { after: 0, milliseconds: 5_000 };
    expect(
      createBans(rule, never.clock, new Map([['key', never.clock.now() + 1]])).until('key'),
    ).toBeUndefined();
  });

  test('is banned by what many connections send at once, exactly from the 10th on', async () => {
    const { clock, send, codes } = await overLimit();
    await codes(1);
    clock.advance(1_000);
    const all = await Promise.all(Array.from({ length: 64 }, () => send()));
    expect(all.filter(({ code }) => code === 'rate_limited')).toHaveLength(9);
    expect(all.filter(({ code }) => code === 'key_banned')).toHaveLength(55);
  });

  test('whose ban cannot be written is banned nevertheless, and the operator is told', async () => {
    const { clock, codes, directory, warnings } = await overLimit();
    await mkdir(join(directory, 'bans.json'));
    await codes(1);
    clock.advance(1_000);
    expect(await codes(11)).toEqual([...times(9, 'rate_limited'), 'key_banned', 'key_banned']);
    expect(warnings).toEqual([expect.stringContaining(join(directory, 'bans.json'))]);
  });

  test('is in the file with all others, however slow the writing is', async () => {
    const clock = manualClock();
    const saved: string[][] = [];
    const first = gate();
    const bans = createBans({ after: 1, milliseconds: 1_000 }, clock, new Map(), async (all) => {
      if (saved.length === 0 && all.size === 1) await first.opened;
      saved.push([...all.keys()]);
    });
    for (const caller of ['a', 'b']) await bans.refused(caller, 60_000);
    clock.advance(1_000);
    const both = Promise.all([bans.refused('a', 60_000), bans.refused('b', 60_000)]);
    await new Promise(setImmediate);
    first.open();
    await both;
    expect(saved).toEqual([['a'], ['a', 'b']]);
  });

  test('is told to the limiter, and what is over is not saved again', async () => {
    const clock = manualClock();
    const saved: ReadonlyMap<string, number>[] = [];
    const bans = createBans(
      { after: 1, milliseconds: 1_000 },
      clock,
      new Map([['old', clock.now() - 1]]),
      async (all) => {
        saved.push(all);
      },
    );
    const limiter = createMemoryLimiter(clock, bans);
    const quota = { perMinute: 1, perDay: 10 };
    await limiter.take('key', quota);
    await limiter.take('key', quota);
    clock.advance(1_000);
    expect(await limiter.take('key', quota)).toEqual({
      window: { limit: 1, remaining: 0, resetAt: clock.now() + 1_000 },
      retryAt: clock.now() + 1_000,
      banned: true,
    });
    // What is over is forgotten.
    expect(saved).toEqual([new Map([['key', clock.now() + 1_000]])]);
    expect(await limiter.peek('key', quota)).toMatchObject({ banned: true });
  });
});

test('a damaged file of bans is named at the start, with what to do, and left as it is', async () => {
  const { directory, restart } = await startReal();
  const path = join(directory, 'bans.json');
  for (const [text, why] of [
    ['{"half":', 'it is not JSON'],
    ['[]', 'must be a JSON object'],
    ['{"key":"2026-11-20T12:00:00Z"}', 'key is not a SHA-256'],
    [`{"${'0'.repeat(64)}":"tomorrow"}`, 'must be an instant'],
  ] as const) {
    await writeFile(path, text);
    await expect(restart()).rejects.toMatchObject({
      message: expect.stringMatching(new RegExp(`^${path} is damaged: .*${why}`)),
      hint: expect.stringContaining('remove that file'),
    });
    expect(await readFile(path, 'utf8')).toBe(text);
  }
});
