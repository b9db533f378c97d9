import type { SteadyClock, Uptime } from '../../src/system/clock.ts';

export type ManualClock = ReturnType<typeof manualClock>;

/** A clock that only the test changes. `advance` lets time pass; `set` and `step` change only the system time. */
export function manualClock(start = '2026-11-20T12:00:00Z') {
  let now = Date.parse(start);
  let elapsed = 0;
  return {
    now: () => now,
    elapsed: () => elapsed,
    set(time: string) {
      now = Date.parse(time);
    },
    step(milliseconds: number) {
      now += milliseconds;
    },
    advance(milliseconds: number) {
      now += milliseconds;
      elapsed += milliseconds;
    },
  };
}

/** Returns the uptime of a machine whose processes have this clock. `boot` is its boot id. */
export const uptimeOf =
  (clock: SteadyClock, boot = 'test') =>
  (): Uptime => ({ boot, milliseconds: clock.elapsed() });
