import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

/**
 * The uptime of this machine in milliseconds. Changes of the system time do not affect it, and it is the same for all
 * processes. `boot` is the boot id, which changes with each start of the machine; empty if the system has none.
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
