import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

/**
 * Milliseconds since this machine was started. Unlike the system time, all its processes agree on it. `boot` identifies the
 * start of the machine; it is empty if the system has no such identifier.
 */
export type Uptime = { boot: string; milliseconds: number };

let boot: string | undefined;

export function readUptime(): Uptime {
  boot ??= readBoot();
  return { boot, milliseconds: uptime() * 1_000 };
}

function readBoot(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
