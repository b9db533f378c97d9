export type ManualClock = ReturnType<typeof manualClock>;

/** A clock that only the test advances. `now()` returns milliseconds since the epoch. */
export function manualClock(start = '2026-11-20T12:00:00Z') {
  let now = Date.parse(start);
  return {
    now: () => now,
    set(time: string) {
      now = Date.parse(time);
    },
    advance(milliseconds: number) {
      now += milliseconds;
    },
  };
}
