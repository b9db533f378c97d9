import type { Context } from './context.ts';
import { type ExitCode, exitCodes } from './errors/exit-codes.ts';
import { CallError } from './explain/call-error.ts';
import { explain } from './explain/explain.ts';
import type { Explanation } from './explain/explanation.ts';
import { firstGlanceAt } from './globals.ts';
import { type Console, createConsole, OutputError } from './output/console.ts';
import { visible } from './output/visible.ts';
import { cutToWidth } from './output/width.ts';
import { runProgram } from './program/program.ts';

/** Runs the program on a context and returns the exit code; every error ends here. */
export async function main(context: Context): Promise<number> {
  // A reader that has gone is told by the write that failed; without a listener it would end the process.
  context.stdout.on('error', () => {});
  context.stderr.on('error', () => {});
  try {
    return await runProgram(context);
  } catch (error) {
    const cause = error instanceof CallError ? error.cause : error;
    if (cause instanceof OutputError && cause.code === 'EPIPE') return exitCodes.ok;
    return report(error, context);
  }
}

function report(error: unknown, context: Context): ExitCode {
  const glance = firstGlanceAt(context.argv);
  const explanation = explain(error, context.clock.now());
  const console = createConsole(context, glance);
  if (glance.debug) tellStack(console, error);
  tellError(console, explanation);
  return explanation.exitCode;
}

const MOST_READ = 2_000;

/** What happened, and one step that helps: for a person on two lines, for a program as one object. */
export function tellError(console: Console, { exitCode, ...error }: Explanation): void {
  const { red, dim } = console.errorColours;
  const hint = error.hint === undefined ? '' : `\n  ${dim('→')} ${visible(error.hint)}`;
  // A person reads no more of it; a program has it whole.
  const message = cutToWidth(visible(error.message.slice(0, 2 * MOST_READ)), MOST_READ);
  console.event({ error: { ...error, exitCode } }, `${red('error:')} ${message}${hint}`, 4);
}

/** Before the error, which stays the last line. */
function tellStack(console: Console, error: unknown): void {
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  // A message may have lines of its own, which are none of the stack.
  const end = error instanceof Error ? stack.indexOf(error.message) + error.message.length : 0;
  const frames = stack.slice(end).split('\n').map(visible);
  const text = `${visible(stack.slice(0, end))}${frames.join('\n')}`;
  console.event({ debug: { stack } }, console.errorColours.dim(text));
}
