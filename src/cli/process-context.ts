import { homedir, userInfo } from 'node:os';
import type { Context } from './context.ts';

/** The longest delay of setTimeout in milliseconds; longer ones fire immediately. */
const MAX_TIMER = 2 ** 31 - 1;

/** A context backed by the real process. */
export function createProcessContext(): Context {
  return {
    argv: process.argv.slice(2),
    env: process.env,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    platform: process.platform,
    // With an empty HOME, files would be created in the working directory.
    homeDirectory: homedir() || userInfo().homedir,
    pid: process.pid,
    clock: { now: () => Date.now() },
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

async function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  for (let left = milliseconds; left > 0; left -= MAX_TIMER) await timer(Math.min(left, MAX_TIMER), signal);
}

function timer(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const abort = () => {
      clearTimeout(timeout);
      reject(signal.reason);
    };
    const timeout = setTimeout(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    }, milliseconds);
    signal.addEventListener('abort', abort, { once: true });
  });
}
