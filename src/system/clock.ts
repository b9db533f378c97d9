import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

/** A source of the current time, in milliseconds since the epoch. */
export type Clock = { now(): number };

/** A clock with `elapsed`, the milliseconds since a fixed moment. Changes of the system time do not affect `elapsed`. */
export type SteadyClock = Clock & { elapsed(): number };

export const systemClock: SteadyClock = { now: Date.now, elapsed: () => performance.now() };

/**
 * The uptime of this machine in milliseconds. Changes of the system time do not affect it, and it is the same for all
 * processes. `boot` is the boot id, which changes with each start of the machine; empty if the system has none.
 */
export type Uptime = { boot: string; milliseconds: number };

export const readUptime = (): Uptime => ({ boot: readBoot(), milliseconds: uptime() * 1_000 });

function readBoot(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}

/** Work was interrupted: by the user (Ctrl-C), by a signal, or because the client that did it was closed. */
export class InterruptedError extends Error {
  override name = 'InterruptedError';
  override message = 'interrupted';
}
