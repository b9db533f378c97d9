import { constants } from 'node:os';
import spawn from 'cross-spawn';
import { systemReason } from '../../system/file-system.ts';
import type { Context } from '../core/context.ts';
import { CliError } from '../core/errors.ts';

/**
 * The signals that stop the server. If they were not handled, they would end the process and leave its temporary store
 * and its command. nodemon sends SIGUSR2, and a terminal SIGQUIT (Ctrl-\) or SIGBREAK. Node itself uses SIGUSR1.
 */
export const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2', 'SIGBREAK'] as const;

/** If `runCommand` is aborted, the command gets SIGTERM, and SIGKILL this many milliseconds later. */
const KILL_DELAY_MS = 5_000;

/**
 * Runs a command with this process's streams and waits for its exit.
 * - SIGTERM and SIGHUP are forwarded, and the other signals that stop the server are forwarded as SIGTERM. If the command
 *   has already received one of them, the next one kills the command.
 * - If `abort` is aborted, the command gets SIGTERM, and SIGKILL after 5 s.
 *
 * Many programs take a second signal as the wish to end at once, so each signal must reach the command once. If stdin is a
 * terminal, the command stays in this process group, because it could not read the terminal otherwise. Then Ctrl-C reaches
 * both, so SIGINT is not forwarded. Otherwise, the command gets a process group of its own, so a signal to the group of
 * this process reaches the command and its children only when it is forwarded.
 *
 * @returns the exit code of the command, or 128 + n if signal n ended the command, as in a shell
 * @throws CliError if the command cannot be started; the reason of `abort` if `abort` is already aborted
 */
export async function runCommand(
  context: Context,
  [file = '', ...args]: readonly string[],
  variables: Record<string, string>,
  abort: AbortSignal,
): Promise<number> {
  abort.throwIfAborted();
  const hasOwnGroup = !context.stdin.isTTY && context.platform !== 'win32';
  const child = spawn(file, args, {
    stdio: 'inherit',
    env: { ...context.env, ...variables },
    detached: hasOwnGroup,
  });
  const send = (signal: NodeJS.Signals) => {
    try {
      if (hasOwnGroup && child.pid !== undefined) process.kill(-child.pid, signal);
      else child.kill(signal);
    } catch {
      // The command and all its children have ended.
    }
  };
  const ended = new AbortController();
  const kill = () => send('SIGKILL');
  let isTerminating = false;
  const terminate = (signal: NodeJS.Signals) => {
    if (isTerminating) return kill();
    isTerminating = true;
    send(signal);
  };
  const onAbort = () => {
    if (!isTerminating) terminate('SIGTERM');
    context.sleep(KILL_DELAY_MS, ended.signal).then(kill, () => {});
  };
  abort.addEventListener('abort', onAbort, { signal: ended.signal });
  const unsubscribe = context.onSignal(STOP_SIGNALS, (signal) => {
    if (signal !== 'SIGINT') terminate(signal === 'SIGHUP' ? signal : 'SIGTERM');
    else if (!context.stdin.isTTY) send(signal);
  });
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (error: NodeJS.ErrnoException) => reject(startError(file, error)));
      child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGTERM']));
    });
  } finally {
    ended.abort();
    unsubscribe();
  }
}

function startError(file: string, cause: NodeJS.ErrnoException): CliError {
  const isMissing = cause.code === 'ENOENT';
  return new CliError(`cannot run ${file}: ${isMissing ? 'command not found' : systemReason(cause)}`, {
    code: isMissing ? 'command_not_found' : 'command_failed',
    hint: isMissing ? 'check its name' : 'check that it is a program, and executable',
    cause,
  });
}
