import { constants } from 'node:os';
import spawn from 'cross-spawn';
import { CliError } from '../cli-error.ts';
import type { Context } from '../context.ts';
import { exitCodes } from '../exit-codes.ts';

/**
 * Runs a command with the process's own streams, passes signals on, and asks it to end when it is aborted.
 *
 * @returns its exit code; 128 + n where signal n ended it, as a shell has it
 */
export async function runCommand(
  context: Context,
  [file = '', ...args]: readonly string[],
  variables: Record<string, string>,
  abort: AbortSignal,
): Promise<number> {
  const child = spawn(file, args, { stdio: 'inherit', env: { ...context.env, ...variables } });
  // On a terminal Ctrl-C reaches the whole group: passed on, the command would get it twice.
  const forwarded = context.stdin.isTTY
    ? (['SIGTERM', 'SIGHUP'] as const)
    : (['SIGINT', 'SIGTERM', 'SIGHUP'] as const);
  const unsubscribe = [
    context.onSignal(forwarded, (signal) => child.kill(signal)),
    context.onSignal(['SIGINT'], () => {}),
  ];
  abort.addEventListener('abort', () => child.kill('SIGTERM'));
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (error: NodeJS.ErrnoException) => reject(cannotRun(file, error)));
      child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGTERM']));
    });
  } finally {
    for (const each of unsubscribe) each();
  }
}

function cannotRun(file: string, cause: NodeJS.ErrnoException): CliError {
  const reason = cause.code === 'ENOENT' ? 'there is no such command' : cause.message;
  return new CliError(`cannot run ${file}: ${reason}`, {
    code: 'command_failed',
    exitCode: exitCodes.other,
    hint: 'check its name and that it can be executed',
    cause,
  });
}
