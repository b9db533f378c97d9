import { createInterface } from 'node:readline/promises';
import { InterruptedError } from '../../system/clock.ts';
import type { Context } from '../core/context.ts';
import { readInput, requireUtf8 } from '../core/input.ts';
import { sanitizeForTerminal } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';

/** Returns what is wrong with a line; undefined if the line is valid. */
type Validate = (line: string) => string | undefined;

/**
 * Prompts at the terminal until the user types a valid line. `message` names what to type.
 *
 * @throws InterruptedError on Ctrl-C, Ctrl-D, Ctrl-Z, a signal or the end of the input
 */
export const promptText = (context: Context, message: string, validate: Validate): Promise<string> =>
  readLine(context, `${message}: `, validate);

/** Like `promptText`, but the terminal does not show what the user types. A paste of several lines is refused. */
export const promptSecret = (context: Context, message: string, validate: Validate): Promise<string> =>
  readLine(context, `${message}, input hidden: `, validate, true);

/**
 * Asks a question at the terminal until the answer is one of the words, or the beginning of one. An empty line means the
 * first word, so the first word must be the safest. Call this only if `canAsk`.
 *
 * @throws the errors of `promptText`
 */
export async function ask<Word extends string>(
  context: CommandContext,
  question: string,
  words: readonly Word[],
): Promise<Word> {
  const { console } = context;
  console.showStatus(undefined);
  const wordOf = (line: string) => words.find((word) => word.startsWith(line.trim().toLowerCase()));
  const prompt = `${sanitizeForTerminal(console.redactAll(question))} [${words.join('/')}] `;
  const validate = (line: string) => (wordOf(line) === undefined ? `type ${words.join(' or ')}` : undefined);
  return wordOf(await readLine(context, prompt, validate)) as Word;
}

/** Whether the command may ask the user a question. With `--json`, it must behave as in a script. */
export const canAsk = (context: CommandContext): boolean =>
  !context.console.hasJsonEvents && canPrompt(context);

/**
 * Whether the command can prompt: without `--no-input` and not in a CI job, if standard input and standard error are terminals,
 * and the command has not read standard input to its end.
 */
export const canPrompt = ({ env, globals, stdin, stderr }: CommandContext): boolean =>
  globals.input &&
  /^(|0|false)$/i.test(env['CI'] ?? '') &&
  stdin.isTTY === true &&
  stderr.isTTY === true &&
  !stdin.readableEnded;

/** A paste has ended if nothing more arrives for this many milliseconds. */
const PASTE_PAUSE_MS = 50;

/**
 * Reads lines with Node's line editor until a line is valid. @clack/prompts is not used, because it never ends after Ctrl-D,
 * and leaves the other lines of a paste to the shell, which would run them.
 */
function readLine(
  { env, stdin, stderr, onSignal, sleep }: Context,
  prompt: string,
  validate: Validate,
  isHidden = false,
): Promise<string> {
  const editor = createInterface({
    input: stdin,
    ...(!isHidden && { output: stderr }),
    prompt: isHidden ? '' : prompt,
    // A dumb terminal knows no escape sequences, so it edits the line itself, except if the line must not be shown.
    terminal: isHidden || env['TERM'] !== 'dumb',
    historySize: 0,
  });
  let lines: string[] = [];
  /** Reads a paste to its end. Otherwise the shell would show its other lines, and run them. */
  const endOfPaste = async () => {
    for (let before = -1; before !== lines.length + editor.line.length; ) {
      before = lines.length + editor.line.length;
      await sleep(PASTE_PAUSE_MS, new AbortController().signal);
    }
  };
  const show = () => {
    if (isHidden) stderr.write(prompt);
    editor.prompt();
  };
  return new Promise<string>((resolve, reject) => {
    const interrupt = () => reject(new InterruptedError());
    editor.on('SIGINT', interrupt).on('SIGTSTP', interrupt).on('close', interrupt);
    const unsubscribe = onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], interrupt);
    editor.on('close', unsubscribe);
    editor.on('line', async (line) => {
      if (lines.push(line) > 1) return;
      if (isHidden) await endOfPaste();
      const isPaste = lines.length > 1 || (isHidden && editor.line !== '');
      const error = isPaste ? 'the input has several lines, so it was ignored' : validate(line);
      if (error === undefined) {
        resolve(line);
        // Stop reading now: the next line answers the next question.
        return editor.close();
      }
      lines = [];
      // Drop the unfinished last line of a paste. This shows the prompt again, so do it only if there is such a line.
      if (editor.line !== '') editor.write(null, { ctrl: true, name: 'u' });
      // Erase the wrong line, because it may be a key.
      const rows = Math.ceil((prompt.length + line.length) / (stderr.columns || 80));
      const erase = editor.terminal ? `\x1b[${rows}A\x1b[J` : '';
      stderr.write(`${isHidden ? '\n' : erase}${error}\n`);
      show();
    });
    show();
  }).finally(() => {
    editor.close();
    if (isHidden) stderr.write('\n');
  });
}

/**
 * Reads a key from standard input, which is not a terminal. Says after a second what it waits for, because a terminal may look
 * like a pipe, and another program may keep a pipe open. @throws CliError if it cannot be read, or is not UTF-8
 */
export async function readStdin({ stdin, sleep, console }: CommandContext): Promise<string> {
  const ended = new AbortController();
  const explain = () =>
    console.notice(
      'pets login reads the key from standard input, and waits for its end; if you type it: Enter, then Ctrl-D (in Git Bash, start with: winpty pets login)',
    );
  sleep(1_000, ended.signal).then(explain, () => {});
  const bytes = await readInput(stdin, 'standard input').finally(() => ended.abort());
  return requireUtf8(bytes, 'standard input').toString();
}
