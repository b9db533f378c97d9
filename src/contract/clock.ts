/** A source of the current time, in milliseconds since the epoch. */
export type Clock = { now(): number };

/** A clock that also has `elapsed`: milliseconds since some start, which changes of the system time do not affect. */
export type SteadyClock = Clock & { elapsed(): number };

export const systemClock: SteadyClock = { now: Date.now, elapsed: () => performance.now() };
