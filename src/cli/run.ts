import { openSync } from 'node:fs';
import { homedir, tmpdir, userInfo } from 'node:os';
import { parse } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ReadStream } from 'node:tty';
import { systemClock } from '../contract/clock.ts';
import { readUptime } from '../system/uptime.ts';
import { enableCompileCache } from './compile-cache.ts';
import type { Context } from './core/context.ts';
import { exitCodes } from './core/exit-codes.ts';
import { version, versionDetails } from './core/version-details.ts';

/** Runs the program with the real process, and exits the process. */
export async function run(): Promise<void> {
  // The process exits with this code only if the event loop runs empty before the program has finished, which is a bug.
  process.exitCode = exitCodes.other;
  const context = createProcessContext();
  enableCompileCache(context);
  const { main } = await import('./main.ts');
  if (context.argv.includes('--json')) {
    // Node would print its warnings as text between the JSON lines, for example about NODE_TLS_REJECT_UNAUTHORIZED.
    process.removeAllListeners('warning');
    process.on('warning', ({ message }) => process.stderr.write(`${JSON.stringify({ notice: message })}\n`));
  }
  process.exitCode = await main(context);
  // Wait until all output is written, because the reader may be slow. If the reader has closed its end, the write
  // fails, which also ends the wait.
  for (const stream of [process.stdout, process.stderr]) await new Promise((end) => stream.write('', end));
  // Without this call, Node would wait for DNS lookups, connection attempts and JIT compilation that no longer matter.
  process.exit();
}

export function createProcessContext(): Context {
  return {
    argv: process.argv.slice(2),
    env: process.env,
    stdin: process.stdin,
    openTerminal,
    stdout: process.stdout,
    stderr: process.stderr,
    platform: process.platform,
    homeDirectory: findHome(),
    temporaryDirectory: tmpdir(),
    pid: process.pid,
    versionDetails: () => versionDetails(version, import.meta.dirname),
    clock: systemClock,
    uptime: readUptime,
    // The types do not show that Node can return undefined.
    timeZone: (): string | undefined => new Intl.DateTimeFormat().resolvedOptions().timeZone,
    locale: () => new Intl.NumberFormat().resolvedOptions().locale,
    sleep,
    random: Math.random,
    onSignal(signals, handler) {
      for (const signal of signals) process.on(signal, handler);
      return () => {
        for (const signal of signals) process.off(signal, handler);
      };
    },
    exitNow: (code) => process.exit(code),
  };
}

function openTerminal(): ReadStream | undefined {
  try {
    return new ReadStream(openSync('/dev/tty', 'r'));
  } catch {
    // A process that the system starts, such as a cron job, has no terminal. Windows has no such file.
    return undefined;
  }
}

/** The home directory; the root directory, as in containers, if HOME is not set and the system does not know the user. */
function findHome(): string {
  try {
    // With an empty HOME, files would be created in the working directory.
    return homedir() || userInfo().homedir;
  } catch {
    return parse(process.cwd()).root;
  }
}

/** The longest delay of setTimeout, in milliseconds. A timer with a longer delay fires immediately. */
const MAX_TIMER = 2 ** 31 - 1;

async function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  for (let left = milliseconds; left > 0; left -= MAX_TIMER) {
    await delay(Math.min(left, MAX_TIMER), undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}
