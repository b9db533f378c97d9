import { createInterface } from 'node:readline';
import { InterruptedError } from '../../system/interrupted-error.ts';
import type { Context } from '../core/context.ts';
import { usageError } from '../core/errors.ts';
import { explainSilence, readInput, requireUtf8 } from '../core/input.ts';
import { DEFAULT_COLUMNS } from '../output/console.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { wrapText } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';

/** Returns what is wrong with a line; undefined if the line is valid. */
type Validate = (line: string) => string | undefined;

/** The most characters accepted at a prompt. API keys and URLs are shorter. */
const MAX_TYPED = 4_096;

/** Matches Ctrl-C, Ctrl-D and Ctrl-Z. Ctrl-Z cancels too, because a suspended prompt could not be redrawn. */
const CANCEL = /[\x03\x04\x1a]/;

/**
 * Prompts at the terminal until the user types a valid line. `message` names what to type.
 *
 * @throws InterruptedError on Ctrl-C, Ctrl-D, Ctrl-Z, a signal or the end of the input
 * @throws CliError if more is typed or pasted than any valid line has
 */
export function promptText(context: Context, message: string, validate: Validate): Promise<string> {
  return readLine(context, `${message}: `, validate, { keepsLine: true });
}

const YES_OR_NO = /^\s*(?:y|yes|n|no)?\s*$/i;

/**
 * Asks a question at the terminal until the answer is yes or no; an empty line is no. The question ends with a question
 * mark. Call this only if `canConfirm`.
 *
 * @throws the errors of `promptText`
 */
export async function confirm(context: CommandContext, question: string): Promise<boolean> {
  const { console, stderr } = context;
  const text = `${sanitizeForTerminal(console.redactAll(question))} [y/N]`;
  const lines = wrapText(text, stderr.columns || DEFAULT_COLUMNS, 0).split('\n');
  const prompt = `${lines.pop()} `;
  console.status(undefined);
  stderr.write(lines.map((line) => `${line}\n`).join(''));
  const validate = (line: string) => (YES_OR_NO.test(line) ? undefined : 'type y for yes or n for no');
  return /y/i.test(await readLine(context, prompt, validate));
}

/** Whether the command may ask the user to confirm something. With `--json`, it must behave as in a script. */
export const canConfirm = (context: CommandContext): boolean =>
  !context.console.hasJsonEvents && canPrompt(context);

/**
 * Prompts for a secret, which is not shown while the user types it. Drops a paste of several lines, which the shell would
 * otherwise show and keep in its history, and asks again. @throws the errors of `promptText`
 */
export async function promptSecret(context: Context, message: string, validate: Validate): Promise<string> {
  for (;;) {
    const line = await readLine(context, `${message}, input hidden: `, validate, { isHidden: true });
    if (!(await discardPaste(context)) && line !== '') return line;
    context.stderr.write('the input has several lines, so it was ignored; enter only the key\n');
  }
}

/** Whether the command can prompt: without `--no-input`, if standard input and standard error are terminals. */
export const canPrompt = ({ globals, stdin, stderr }: CommandContext): boolean =>
  globals.input && stdin.isTTY === true && stderr.isTTY === true;

/** A paste has ended if nothing more arrives for this many milliseconds. */
const PASTE_PAUSE = 50;
/** The maximum number of pauses to wait for the end of a paste. */
const MAX_DISCARDS = 10;

/**
 * Drops the rest of a paste. Otherwise the shell would read the rest, and run its lines as commands. Returns whether
 * there was a rest.
 */
async function discardPaste({ stdin, sleep }: Context): Promise<boolean> {
  let hasMore = true;
  let hasDropped = false;
  const drop = () => {
    hasMore = true;
    hasDropped = true;
  };
  stdin.setRawMode?.(true);
  stdin.on('data', drop).resume();
  for (let i = 0; hasMore && i < MAX_DISCARDS; i++) {
    hasMore = false;
    await sleep(PASTE_PAUSE, new AbortController().signal);
  }
  stdin.off('data', drop).pause();
  stdin.setRawMode?.(false);
  return hasDropped;
}

/**
 * Reads lines with Node's line editor until a line is valid. All attempts use the same editor, because the terminal
 * would leave raw mode between two editors, and backspaces could be lost. With `keepsLine`, the user can edit an
 * invalid line. With `isHidden`, resolves with an empty line if several lines are pasted.
 */
function readLine(
  context: Context,
  prompt: string,
  validate: Validate,
  { isHidden = false, keepsLine = false }: { isHidden?: boolean; keepsLine?: boolean } = {},
): Promise<string> {
  const { stdin, stderr, onSignal } = context;
  return new Promise((resolve, reject) => {
    let typed = 0;
    let hasMore = false;
    const watch = (chunk: unknown) => {
      hasMore = /[\r\n][^\r\n]/.test(String(chunk));
      typed += String(chunk).length;
      if (typed > MAX_TYPED)
        finish(usageError('the input is too long', 'enter only what the prompt asks for'), true);
      else if (CANCEL.test(String(chunk))) interrupt();
    };
    const interrupt = () => finish(new InterruptedError());
    const finish = (result: string | Error, discards = false) => {
      unsubscribe();
      stdin.off('data', watch).off('end', interrupt);
      // Closing the editor also discards the rest of the current chunk.
      editor.close();
      if (isHidden || result instanceof Error) stderr.write('\n');
      if (discards) discardPaste(context).then(() => reject(result), reject);
      else if (result instanceof Error) reject(result);
      else resolve(result);
    };
    const ask = (initial: string) => {
      typed = 0;
      if (isHidden) stderr.write(prompt);
      editor.prompt();
      editor.write(initial);
    };
    // This listener must be called before the editor's own, so that input that is too long never reaches the editor.
    stdin.prependListener('data', watch).once('end', interrupt);
    const editor = createInterface({
      input: stdin,
      ...(!isHidden && { output: stderr }),
      prompt: isHidden ? '' : prompt,
      terminal: true,
      historySize: 0,
    });
    const unsubscribe = onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], interrupt);
    editor.on('line', (line) => {
      // The first line of a paste is only a part of the secret. Closing the editor drops the other lines.
      if (isHidden && hasMore) return finish('');
      const error = validate(line);
      if (error === undefined) return finish(line);
      stderr.write(`${isHidden ? '\n' : ''}${error}\n`);
      ask(keepsLine ? line : '');
    });
    ask('');
  });
}

/** Reads a key from standard input, which is not a terminal. @throws CliError if the input cannot be a key */
export async function readStdin(context: CommandContext): Promise<string> {
  const stop = explainSilence(
    context,
    'waiting for the end of standard input, from which the key is read; if you type it: Enter, then Ctrl-D (in Git Bash, start with: winpty pets login)',
  );
  const bytes = await readInput(context.stdin, 'standard input').finally(stop);
  return requireUtf8(bytes, 'standard input').toString();
}
