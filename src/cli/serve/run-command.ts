import { constants } from 'node:os';
import spawn from 'cross-spawn';
import type { Context } from '../context.ts';
import { CliError } from '../errors/cli-error.ts';

/** What a command has to end in that was asked to because the service can go on no more. */
const PATIENCE_MILLISECONDS = 5_000;

/**
 * Runs a command with the process's own streams. It gets the process's signals, and what it makes of them is its own
 * affair:
 * - SIGTERM and SIGHUP are passed on; the second of them ends it with SIGKILL.
 * - SIGINT is passed on however often it comes: to many programs the second means something else than the first, and
 *   SIGTERM is there for the one that hears none. On a terminal it is not: there Ctrl-C reaches the whole group, and
 *   passed on, the command would get it twice.
 * - Aborted, it gets SIGTERM, and SIGKILL where it has not ended 5 s later.
 *
 * Signals go to the command alone, not to what it has started: in a process group of its own it would lose the terminal.
 *
 * @returns its exit code; 128 + n where signal n ended it, as a shell has it
 * @throws CliError where it cannot be started; the signal's reason where that is aborted already
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
  let isAsked = false;
  const ask = (signal: NodeJS.Signals) => {
    isAsked = true;
    child.kill(signal);
  };
  const kill = () => child.kill('SIGKILL');
  const giveUp = () => {
    ask('SIGTERM');
    context.sleep(PATIENCE_MILLISECONDS, ended.signal).then(kill, () => {});
  };
  const unsubscribe = [
    context.onSignal(['SIGTERM', 'SIGHUP'], (signal) => (isAsked ? kill() : ask(signal))),
    context.onSignal(['SIGINT'], (signal) => !context.stdin.isTTY && child.kill(signal)),
    () => abort.removeEventListener('abort', giveUp),
  ];
  abort.addEventListener('abort', giveUp);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (error: NodeJS.ErrnoException) => reject(cannotRun(file, error)));
      child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGTERM']));
    });
  } finally {
    ended.abort();
    for (const each of unsubscribe) each();
  }
}

function cannotRun(file: string, cause: NodeJS.ErrnoException): CliError {
  const reason = cause.code === 'ENOENT' ? 'there is no such command' : cause.message;
  return new CliError(`cannot run ${file}: ${reason}`, {
    code: 'command_failed',
    hint: 'check its name and that it can be executed',
    cause,
  });
}
