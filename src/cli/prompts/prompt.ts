import { createInterface } from 'node:readline';
import { InterruptedError } from '../../system/interrupted-error.ts';
import type { Context } from '../core/context.ts';
import { readInput, requireUtf8 } from '../core/input.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
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

const YES_OR_NO = /^\s*(?:y|yes|n|no)?\s*$/i;

/**
 * Asks a question at the terminal until the answer is yes or no; an empty line is no. The question ends with a question
 * mark. Call this only if `canConfirm`.
 *
 * @throws the errors of `promptText`
 */
export async function confirm(context: CommandContext, question: string): Promise<boolean> {
  const { console } = context;
  console.status(undefined);
  const prompt = `${sanitizeForTerminal(console.redactAll(question))} [y/N] `;
  const validate = (line: string) => (YES_OR_NO.test(line) ? undefined : 'type y for yes or n for no');
  return /y/i.test(await readLine(context, prompt, validate));
}

/** Whether the command may ask the user to confirm something. With `--json`, it must behave as in a script. */
export const canConfirm = (context: CommandContext): boolean =>
  !context.console.hasJsonEvents && canPrompt(context);

/**
 * Whether the command can prompt: without `--no-input`, if standard input and standard error are terminals, and standard
 * input was not the data of the command.
 */
export const canPrompt = ({ globals, stdin, stderr }: CommandContext): boolean =>
  globals.input && stdin.isTTY === true && stderr.isTTY === true && !stdin.readableEnded;

/** A paste has ended if nothing more arrives for this many milliseconds. */
const PASTE_PAUSE = 50;

/**
 * Reads lines with Node's line editor until a line is valid. @clack/prompts does not do: it leaves the other lines of a paste
 * to the shell, which would run them, and never ends after Ctrl-D.
 */
function readLine(
  { stdin, stderr, onSignal, sleep }: Context,
  prompt: string,
  validate: Validate,
  isHidden = false,
): Promise<string> {
  const editor = createInterface({
    input: stdin,
    ...(!isHidden && { output: stderr }),
    prompt: isHidden ? '' : prompt,
    terminal: true,
    historySize: 0,
  });
  let lines: string[] = [];
  /** Reads a paste to its end. Otherwise the shell would show its other lines, and run them. */
  const endOfPaste = async () => {
    for (let before = -1; before !== lines.length + editor.line.length; ) {
      before = lines.length + editor.line.length;
      await sleep(PASTE_PAUSE, new AbortController().signal);
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
      if (error === undefined) return resolve(line);
      lines = [];
      // Drop the last line of the paste.
      editor.write(null, { ctrl: true, name: 'u' });
      stderr.write(`${isHidden ? '\n' : ''}${error}\n`);
      show();
    });
    show();
  }).finally(() => {
    editor.close();
    if (isHidden) stderr.write('\n');
  });
}

/** How long a command may wait silently for standard input, in milliseconds. */
const SILENCE = 1_000;

/**
 * Reads a key from standard input, which is not a terminal. Says after a second what it waits for, because a terminal may
 * look like a pipe, and another program may keep a pipe open. @throws CliError if the input cannot be a key
 */
export async function readStdin({ stdin, sleep, console }: CommandContext): Promise<string> {
  const ended = new AbortController();
  sleep(SILENCE, ended.signal).then(
    () =>
      console.notice(
        'waiting for the end of standard input, from which the key is read; if you type it: Enter, then Ctrl-D (in Git Bash, start with: winpty pets login)',
      ),
    () => {},
  );
  const bytes = await readInput(stdin, 'standard input').finally(() => ended.abort());
  return requireUtf8(bytes, 'standard input').toString();
}
