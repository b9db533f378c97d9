import { constants } from 'node:os';
import spawn from 'cross-spawn';
import type { Context } from '../context.ts';
import { CliError } from '../errors/errors.ts';

/** After `abort`, the command gets SIGTERM, and SIGKILL this many milliseconds later. */
const KILL_DELAY = 5_000;

/**
 * Runs a command with this process's streams and waits for its exit.
 * - SIGTERM and SIGHUP are forwarded. If the command has already received one of them, the next one kills the command.
 * - On a terminal, SIGINT is not forwarded, because Ctrl-C already reaches the whole process group.
 * - Elsewhere, every SIGINT is forwarded, because programs may treat a second SIGINT differently.
 * - If `abort` is aborted, the command gets SIGTERM, and SIGKILL after 5 s.
 *
 * The command stays in this process group, because it could not use the terminal otherwise. Therefore, a signal is
 * forwarded only to the command and not to its children.
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
  const child = spawn(file, args, { stdio: 'inherit', env: { ...context.env, ...variables } });
  const ended = new AbortController();
  let isTerminating = false;
  const terminate = (signal: NodeJS.Signals) => {
    isTerminating = true;
    child.kill(signal);
  };
  const kill = () => child.kill('SIGKILL');
  const onAbort = () => {
    terminate('SIGTERM');
    context.sleep(KILL_DELAY, ended.signal).then(kill, () => {});
  };
  const cleanups = [
    context.onSignal(['SIGTERM', 'SIGHUP'], (signal) => (isTerminating ? kill() : terminate(signal))),
    context.onSignal(['SIGINT'], (signal) => !context.stdin.isTTY && child.kill(signal)),
    () => abort.removeEventListener('abort', onAbort),
  ];
  abort.addEventListener('abort', onAbort);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (error: NodeJS.ErrnoException) => reject(startError(file, error)));
      child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGTERM']));
    });
  } finally {
    ended.abort();
    for (const cleanup of cleanups) cleanup();
  }
}

function startError(file: string, cause: NodeJS.ErrnoException): CliError {
  const reason = cause.code === 'ENOENT' ? 'command not found' : cause.message;
  return new CliError(`cannot run ${file}: ${reason}`, {
    code: 'command_failed',
    hint: 'check its name and that it is executable',
    cause,
  });
}
