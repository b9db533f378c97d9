import { mkdir, readFile, rmdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { hashKey } from '../../src/store/keys.ts';
import { createMemoryLimiter } from '../../src/store/limiter.ts';
import { manualClock } from '../helpers/clock.ts';
import { startReal } from '../helpers/real-service.ts';

/** Starts a service, and uses up the quota of a key. */
async function overLimit() {
  const service = await startReal({ time: '2026-11-20T12:00:10.300Z' });
  const quota = { perMinute: 3, perDay: 1_000 };
  const key = await service.makeKey({ name: 'small', plan: 'enterprise', quota });
  const send = async () => {
    const response = await service.call('/pets', { headers: { Authorization: `Bearer ${key}` } });
    const { code = 'ok' } = (await response.json()) as { code?: string };
    return { code, status: response.status, headers: Object.fromEntries(response.headers) };
  };
  const codes = async (count: number) => {
    const all: string[] = [];
    for (let i = 0; i < count; i++) all.push((await send()).code);
    return all;
  };
  expect(await codes(3)).toEqual(times(3, 'ok'));
  const getBanned = async () => {
    await codes(1);
    service.clock.advance(1_000);
    expect(await codes(10)).toEqual([...times(9, 'rate_limited'), 'key_banned']);
  };
  return { ...service, key, send, codes, getBanned };
}

const times = (count: number, code: string) => Array.from({ length: count }, () => code);

describe('D9 a key that continues after a 429', () => {
  test('is banned for 300 s by the 10th rejected request that arrives a second or more after the first', async () => {
    const { clock, send, codes } = await overLimit();
    // Requests within a second after the first 429 may have been sent before it arrived, so they do not count.
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
      // A client that waits until this whole second must not be refused again.
      'x-ratelimit-reset': String(Math.ceil(clock.now() / 1_000) + 300),
    });
  });

  test('stays banned after a restart; only the owner can read the file of bans', async () => {
    const { clock, key, directory, codes, getBanned, restart } = await overLimit();
    await getBanned();
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

  test('is banned for 300 s at most if the clock is set back before a restart', async () => {
    const { clock, directory, codes, getBanned, send, restart } = await overLimit();
    await getBanned();
    const path = join(directory, 'bans.json');
    const untilAhead = await readFile(path);
    clock.step(-86_400_000);
    await restart();
    expect((await send()).headers['retry-after']).toBe('300');
    expect(await readFile(path)).not.toEqual(untilAhead);
    for (let restarts = 0; restarts < 2; restarts++) {
      expect(await codes(1)).toEqual(['key_banned']);
      clock.advance(150_000);
      await restart();
    }
    expect(await codes(1)).toEqual(['ok']);
  });

  test('is banned even if the ban cannot be saved; it is saved when the service stops, and the operator gets a warning', async () => {
    const { codes, getBanned, directory, warnings, restart } = await overLimit();
    const path = join(directory, 'bans.json');
    await mkdir(path);
    await getBanned();
    expect(await codes(1)).toEqual(['key_banned']);
    const consequence = /bans[.]json: .*; so bans end if the server restarts; check each part of the path/;
    expect(warnings).toEqual([expect.stringMatching(consequence)]);
    await rmdir(path);
    await restart();
    expect(await codes(1)).toEqual(['key_banned']);
  });

  test('is saved with all other bans that have not expired, however slow saving is', async () => {
    const clock = manualClock();
    const saved: string[][] = [];
    const limiter = createMemoryLimiter(clock, {
      rule: { after: 1, milliseconds: 1_000 },
      stored: new Map([['expired', clock.now() - 1]]),
      async save(all) {
        const keys = [...all.keys()];
        await setImmediate();
        saved.push(keys);
        return true;
      },
    });
    const both = () => Promise.all(['a', 'b'].map((key) => limiter.take(key, { perMinute: 1, perDay: 9 })));
    await both();
    await both();
    clock.advance(1_000);
    await both();
    expect(saved).toEqual([['a'], ['a', 'b']]);
  });
});

test('a damaged file of bans is reported at the start and not changed', async () => {
  const { directory, restart } = await startReal();
  const path = join(directory, 'bans.json');
  for (const [text, why] of [
    ['{"half":', 'it is not valid JSON'],
    ['[]', 'must be a JSON object'],
    ['{"key":"2026-11-20T12:00:00Z"}', 'key is not a SHA-256'],
    [`{"${'0'.repeat(64)}":"tomorrow"}`, 'must be an ISO 8601 time'],
  ] as const) {
    await writeFile(path, text);
    await expect(restart()).rejects.toMatchObject({
      message: expect.stringMatching(new RegExp(`^${path} is damaged: .*${why}`)),
      hint: expect.stringContaining('delete the file'),
    });
    expect(await readFile(path, 'utf8')).toBe(text);
  }
});
