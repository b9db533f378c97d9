import { InterruptedError } from '../../client/errors.ts';
import type { Context } from '../context.ts';
import { usageError } from '../errors/cli-error.ts';

/** No key and no URL is longer; whoever pipes in more has the wrong file. */
const MAX_INPUT = 64 * 1024;

/** What is wrong with an answer, or undefined. */
type Check = (answer: string) => string | undefined;

/**
 * Asks for a line on the terminal, until it is a good one.
 *
 * @throws InterruptedError on Ctrl-C, and where the input ends
 */
export async function ask(context: Context, message: string, check: Check): Promise<string> {
  const { text } = await import('@clack/prompts');
  return answerOf(context, (options) => text({ message, validate: (line = '') => check(line), ...options }));
}

/** Asks for a line that is not shown. @throws as `ask` */
export async function askHidden(context: Context, message: string, check: Check): Promise<string> {
  const { password } = await import('@clack/prompts');
  return answerOf(context, (options) =>
    password({ message, validate: (line = '') => check(line), ...options }),
  );
}

type PromptOptions = { input: Context['stdin']; output: Context['stderr']; signal: AbortSignal };

// Ctrl-D and Ctrl-Z: a question that was put aside could not be asked on where it stood.
const ENDS = /[\x04\x1a]/;

/** No key and no address is longer; each character more is drawn anew. */
const MAX_TYPED = 4_096;

async function answerOf(
  { stdin, stderr, onSignal }: Context,
  prompt: (options: PromptOptions) => Promise<string | symbol | undefined>,
): Promise<string> {
  // The prompt waits for ever where its input has ended.
  const ended = new AbortController();
  const end = () => ended.abort();
  let typed = 0;
  const watch = (chunk: unknown) => {
    typed += String(chunk).length;
    if (typed > MAX_TYPED || ENDS.test(String(chunk))) end();
  };
  stdin.on('data', watch).once('end', end);
  const unsubscribe = onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], end);
  try {
    const answer = await prompt({ input: stdin, output: stderr, signal: ended.signal });
    if (typed > MAX_TYPED) throw usageError('that is too long for an answer', 'type or paste it again');
    if (typeof answer === 'symbol') throw new InterruptedError();
    return answer ?? '';
  } finally {
    unsubscribe();
    stdin.off('data', watch).off('end', end);
  }
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
