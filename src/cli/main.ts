import type { Context } from './context.ts';
import { exitCodes } from './errors/codes.ts';
import { describeError } from './errors/describe-error.ts';
import { CallError } from './errors/errors.ts';
import { createConsole, OutputError } from './output/console.ts';
import { printError, printStack } from './output/reporting.ts';
import { preParseFlags } from './program/global-options.ts';
import { runProgram } from './program/program.ts';

/** Runs the program and returns its exit code. Prints every error instead of throwing it. */
export async function main(context: Context): Promise<number> {
  // Failed writes are reported by `write` itself; without a listener, the event would end the process.
  context.stdout.on('error', () => {});
  context.stderr.on('error', () => {});
  const flags = preParseFlags(context.argv);
  const console = createConsole(context, flags);
  try {
    return await runProgram(context, console);
  } catch (error) {
    const cause = error instanceof CallError ? error.cause : error;
    if (cause instanceof OutputError && cause.code === 'EPIPE') return exitCodes.ok;
    const userError = describeError(error, context.clock.now());
    if (flags.debug) printStack(console, error);
    printError(console, userError);
    return userError.exitCode;
  }
}
