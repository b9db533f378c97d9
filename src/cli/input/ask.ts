import { InterruptedError } from '../../client/errors.ts';
import { usageError } from '../cli-error.ts';
import type { Context } from '../context.ts';

/** No key and no URL is longer; whoever pipes in more has the wrong file. */
const MAX_INPUT = 64 * 1024;

/** Asks for a line on the terminal. @throws InterruptedError on Ctrl-C */
export async function ask(context: Context, message: string): Promise<string> {
  const { text } = await import('@clack/prompts');
  return answerOf(await text({ message, input: context.stdin, output: context.stderr }));
}

/** Asks for a line that is not shown. @throws InterruptedError on Ctrl-C */
export async function askHidden(context: Context, message: string): Promise<string> {
  const { password } = await import('@clack/prompts');
  return answerOf(await password({ message, input: context.stdin, output: context.stderr }));
}

function answerOf(answer: string | symbol | undefined): string {
  if (typeof answer === 'symbol') throw new InterruptedError('interrupted');
  return answer ?? '';
}

/** Reads standard input to its end. */
export async function readAll(context: Context): Promise<string> {
  let text = '';
  for await (const chunk of context.stdin) {
    text += chunk;
    if (text.length > MAX_INPUT) throw usageError('standard input is too long for a key');
  }
  return text;
}
