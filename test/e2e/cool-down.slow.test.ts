import { expect, test } from 'vitest';
import { systemClock } from '../../src/system/clock.ts';
import { report } from '../helpers/cases.ts';
import { freshMachine } from '../helpers/pets.ts';
import { startReal } from '../helpers/real-service.ts';

// `npm run soak` runs for two minutes with the limit of the Free plan, so that processes also wait for new windows.
const SECONDS = Number(process.env['PETS_COOL_DOWN_SECONDS'] ?? 0);
const PER_MINUTE = SECONDS > 0 ? 60 : 25;
const PROCESSES = 20;
const MINUTE = 60_000;

type Arrival = { time: number; status: number };

test(
  `${PROCESSES} processes with one key: none sends a second or more after the first 429, and the key is not banned`,
  async () => {
    const arrivals: Arrival[] = [];
    const service = await startReal({
      clock: systemClock,
      onAccess: ({ status, milliseconds }) => arrivals.push({ time: Date.now() - milliseconds, status }),
    });
    const quota = { perMinute: PER_MINUTE, perDay: 1_000_000 };
    const key = await service.makeKey({ name: 'shop', plan: 'enterprise', quota });
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: `http://127.0.0.1:${service.port()}/v1`, key });
    const codes: (number | null)[] = [];
    const list = async () => {
      const { code } = await machine.pets(['list', ...(SECONDS > 0 ? [] : ['--max-wait', '0'])]);
      codes.push(code);
    };
    const end = Date.now() + SECONDS * 1_000;
    await Promise.all(
      Array.from({ length: PROCESSES }, async () => {
        await list();
        await list();
        while (Date.now() < end) await list();
      }),
    );

    const late = arrivals.filter(({ time }) => time >= firstRefusal(arrivals, time) + 1_000);
    const refused = arrivals.filter(({ status }) => status === 429);
    report({
      processes: codes.length,
      requests: arrivals.length,
      refused: refused.length,
      late: late.length,
    });
    expect(late).toEqual([]);
    expect(arrivals.length).toBeGreaterThanOrEqual(PER_MINUTE);
    expect(arrivals.every(({ status }) => status === 200 || status === 429)).toBe(true);
    expect(codes.every((code) => code === 0 || code === 5)).toBe(true);
    const answer = await service.call('/pets', { headers: { Authorization: `Bearer ${key}` } });
    expect(await answer.text()).not.toContain('key_banned');
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
