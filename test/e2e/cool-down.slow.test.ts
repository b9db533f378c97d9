import { expect, test } from 'vitest';
import { systemClock } from '../../src/system/clock.ts';
import { report } from '../helpers/cases.ts';
import { freshMachine, type ProgramOptions } from '../helpers/pets.ts';
import { startReal } from '../helpers/real-service.ts';

// Set by `npm run soak`, so that processes also wait for new windows.
const SECONDS = Number(process.env['PETS_COOL_DOWN_SECONDS'] ?? 0);
const PROCESSES = 20;
const MINUTE = 60_000;

type Arrival = { time: number; url: string; status: number };

/** A service, a key with this quota, and a machine that is logged in with it. */
async function limitedService(perMinute: number, options: Parameters<typeof startReal>[0] = {}) {
  const arrivals: Arrival[] = [];
  const service = await startReal({
    onAccess: ({ url, status, milliseconds }) =>
      arrivals.push({ time: Date.now() - milliseconds, url, status }),
    ...options,
  });
  const quota = { perMinute, perDay: 1_000_000 };
  const key = await service.makeKey({ name: 'shop', plan: 'enterprise', quota });
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: `http://127.0.0.1:${service.port()}/v1`, key });
  const codes: number[] = [];
  const list = async (args: readonly string[], more: ProgramOptions = {}): Promise<number | null> => {
    const { code } = await machine.pets(['list', ...args], more);
    codes.push(code ?? -1);
    return code;
  };
  /** Checks what holds for every run: only 200 and 429, and no ban. */
  const expectNoBan = async () => {
    expect(arrivals.every(({ status }) => status === 200 || status === 429)).toBe(true);
    expect(codes.every((code) => code === 0 || code === 5)).toBe(true);
    const answer = await service.call('/pets', { headers: { Authorization: `Bearer ${key}` } });
    expect(await answer.text()).not.toContain('key_banned');
  };
  return { service, arrivals, list, codes, expectNoBan };
}

test(`${PROCESSES} processes with one key: a command that starts after another one was refused sends nothing`, async () => {
  const { service, arrivals, list, expectNoBan } = await limitedService(25);
  const startedAfterRefusal: number[] = [];
  let isRefused = false;
  let count = 0;
  const run = async () => {
    // Each command has another limit, by which its request can be recognized.
    const limit = ++count;
    if (isRefused) startedAfterRefusal.push(limit);
    const code = await list(['--limit', String(limit), '--max-wait', '0'], { clock: service.clock });
    if (code === 5) isRefused = true;
  };
  await Promise.all(
    Array.from({ length: PROCESSES }, async () => {
      for (let i = 0; i < 5; i++) await run();
    }),
  );
  const sent = arrivals.map(({ url }) => Number(new URL(url, 'http://a').searchParams.get('limit')));
  expect(startedAfterRefusal.length).toBeGreaterThan(PROCESSES);
  expect(startedAfterRefusal.filter((limit) => sent.includes(limit))).toEqual([]);
  expect(sent.length).toBeGreaterThan(25);
  await expectNoBan();
});

test.skipIf(SECONDS === 0)(
  `${PROCESSES} processes with one key for ${SECONDS} s: none sends a second or more after the first 429 of a window`,
  async () => {
    const { arrivals, list, codes, expectNoBan } = await limitedService(60, { clock: systemClock });
    const end = Date.now() + SECONDS * 1_000;
    await Promise.all(
      Array.from({ length: PROCESSES }, async () => {
        while (Date.now() < end) await list([]);
      }),
    );
    const late = arrivals.filter(({ time }) => time >= firstRefusal(arrivals, time) + 1_000);
    report({ processes: codes.length, requests: arrivals.length, late: late.length });
    expect(late).toEqual([]);
    await expectNoBan();
  },
  SECONDS * 2_000 + 120_000,
);

/** The time of the first 429 in the rate-limit window of `at`; Infinity if there is none. */
function firstRefusal(arrivals: readonly Arrival[], at: number): number {
  const window = Math.floor(at / MINUTE);
  const times = arrivals
    .filter(({ time, status }) => status === 429 && Math.floor(time / MINUTE) === window)
    .map(({ time }) => time);
  return Math.min(...times);
}
