import { accessSync, closeSync, constants, fstatSync, openSync } from 'node:fs';
import { Socket } from 'node:net';
import { homedir, tmpdir, userInfo } from 'node:os';
import { isAbsolute, join, parse } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { isOwnDirectory, makeDirectorySync } from '../client/service-state.ts';
import { isSingleExecutable } from '../system/bundled-files.ts';
import { readUptime, systemClock } from '../system/clock.ts';
import type { Context } from './core/context.ts';
import { exitCodes } from './core/exit-codes.ts';
import { type HomeContext, stateDirectory } from './profiles/paths.ts';

/** Runs the program with the real process, and exits the process. */
export async function run(): Promise<void> {
  // The process exits with this code only if the event loop runs empty before the program has finished, which is a bug.
  process.exitCode = exitCodes.other;
  reopenOutputPipes();
  closeLostTerminalsAtExit();
  const context = createProcessContext();
  enableCompileCache(context);
  const { main } = await import('./main.ts');
  if (context.argv.includes('--json')) {
    // Node would print its warnings as text between the JSON lines, for example about NODE_TLS_REJECT_UNAUTHORIZED.
    process.removeAllListeners('warning');
    process.on('warning', ({ message }) => process.stderr.write(`${JSON.stringify({ notice: message })}\n`));
  }
  process.exitCode = await main(context);
  // Wait until all output is written, because the reader may be slow; after an interruption, wait only for stderr. If the
  // reader has closed its end, the write fails, which also ends the wait.
  const dataStreams = process.exitCode === exitCodes.interrupted ? [] : [process.stdout];
  for (const stream of [...dataStreams, process.stderr]) await new Promise((end) => stream.write('', end));
  // After Ctrl-C, a bash script ends if SIGINT ended its command, but continues if the command exited, even with this code.
  if (process.exitCode === exitCodes.interrupted && process.platform !== 'win32') {
    process.removeAllListeners('SIGINT');
    process.kill(process.pid, 'SIGINT');
  }
  // Without this call, Node would wait for connection attempts that no longer matter.
  process.exit();
}

export function createProcessContext(): Context {
  return {
    argv: process.argv.slice(2),
    env: process.env,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    platform: process.platform,
    homeDirectory: findHomeDirectory(),
    temporaryDirectory: findTemporaryDirectory(),
    pid: process.pid,
    clock: systemClock,
    uptime: readUptime,
    // The types do not show that Node can return undefined.
    timeZone: (): string | undefined => new Intl.DateTimeFormat().resolvedOptions().timeZone,
    // The name of the locale is not used, because Node refuses some that it has found itself, as for LANG=de_DE@euro.
    hasDecimalComma: () => new Intl.NumberFormat().format(1.5).includes(','),
    async sleep(milliseconds, signal) {
      await delay(milliseconds, undefined, { signal }).catch(() => signal.throwIfAborted());
    },
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

/**
 * Opens inherited output pipes again. Otherwise, Node would make them non-blocking for every program that shares them,
 * such as the other commands of a CI job, whose writes could then fail with EAGAIN. Does nothing except on Linux, where a
 * pipe has a path in /proc. Replaces `process.stdout` and `process.stderr`, because Node writes to them too.
 */
function reopenOutputPipes(): void {
  if (process.platform !== 'linux') return;
  for (const [name, descriptor] of Object.entries({ stdout: 1, stderr: 2 })) {
    try {
      if (!fstatSync(descriptor).isFIFO()) continue;
      const fd = openSync(`/proc/self/fd/${descriptor}`, constants.O_WRONLY | constants.O_NONBLOCK);
      // Like the stream that it replaces, it keeps the process running only while data is waiting.
      const value = new Socket({ fd, readable: false, writable: true }).unref();
      Object.defineProperty(process, name, { value, configurable: true });
    } catch {
      // For example, the pipe belongs to another user. The stream of Node is used.
    }
  }
}

/**
 * Closes the standard descriptors of terminals that were closed while the process ran. At exit, Node resets the
 * terminals that it found at its start. Node 20 aborts if one of them no longer exists.
 */
function closeLostTerminalsAtExit(): void {
  const terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor));
  process.once('exit', () => {
    for (const descriptor of terminals) if (!isatty(descriptor)) closeSync(descriptor);
  });
}

/** The home directory; the root directory if HOME is not an absolute path and the system does not know the user. */
function findHomeDirectory(): string {
  try {
    // With an empty or relative HOME, files would be created in the working directory.
    return isAbsolute(homedir()) ? homedir() : userInfo().homedir;
  } catch {
    return parse(process.execPath).root;
  }
}

/** The directory that Node finds in variables such as TMPDIR. If it cannot be used: /tmp, except on Windows. */
function findTemporaryDirectory(): string {
  const directory = tmpdir();
  try {
    accessSync(`${directory}/.`, constants.W_OK | constants.X_OK);
    return directory;
  } catch {
    return process.platform === 'win32' ? directory : '/tmp';
  }
}

/** The part of `node:module` that Node 20 does not have. */
type ModuleOfNode22 = { enableCompileCache?(directory: string): unknown };

/**
 * On Node 22.8 and newer, caches the compiled code of all modules loaded after this call, so that commands start faster.
 * A single-file executable does not load its modules with Node's loader, so nothing would be cached.
 */
function enableCompileCache(context: HomeContext): void {
  if (isSingleExecutable()) return;
  const { enableCompileCache } = process.getBuiltinModule('node:module') as ModuleOfNode22;
  const directory = enableCompileCache && compileCacheDirectory(context);
  if (directory !== undefined) enableCompileCache?.(directory);
}

/**
 * Creates the directory of the compile cache, and returns its path. Undefined without a state directory, or if other users
 * may write to one of the two, because Node executes cached code.
 */
export function compileCacheDirectory(context: HomeContext): string | undefined {
  const state = stateDirectory(context);
  const directory = join(state, 'compiled');
  const isPrivate = (path: string) => isOwnDirectory(path, 0o022);
  try {
    if (!isPrivate(state)) return undefined;
    makeDirectorySync(directory);
    return isPrivate(directory) ? directory : undefined;
  } catch {
    return undefined;
  }
}
