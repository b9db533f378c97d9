import { resolve } from 'node:path';
import { add } from './commands/add.ts';
import { completion } from './commands/completion.ts';
import { countCommand } from './commands/count.ts';
import { get } from './commands/get.ts';
import { help, overviewPage } from './commands/help.ts';
import { importCommand } from './commands/import.ts';
import { keys } from './commands/keys.ts';
import { find, list } from './commands/list.ts';
import { login, logout } from './commands/login.ts';
import { orders } from './commands/orders.ts';
import { profiles, use } from './commands/profiles.ts';
import { serve } from './commands/serve.ts';
import { store } from './commands/store.ts';
import { type Context, wordsBeforeEnd } from './core/context.ts';
import { toCliError, usageError } from './core/errors.ts';
import { exitCodes } from './core/exit-codes.ts';
import { type Console, type ConsoleOptions, createConsole, isClosedPipe } from './output/console.ts';
import { chooseFormat, type OutputOptions } from './output/printer.ts';
import { cut, sanitizeForTerminal } from './output/text.ts';
import { configDirectory, stateDirectory } from './profiles/paths.ts';
import type { Command, CommandContext, CommandGroup } from './program/command.ts';
import { flagsOf, parseCommandLine } from './program/program.ts';

/** All commands, in the order of the help page. */
export const commands: readonly (Command | CommandGroup)[] = [
  list,
  find,
  countCommand,
  get,
  add,
  importCommand,
  orders,
  login,
  logout,
  profiles,
  use,
  serve,
  keys,
  store,
  completion,
  help,
];

/** Runs the program and returns its exit code. Prints errors. A closed output pipe is only an error if a new key is lost. */
export async function main(context: Context): Promise<number> {
  // Without a listener, the `error` event would end the process. `Console.write` rejects if a write fails.
  context.stdout.on('error', () => {});
  context.stderr.on('error', () => {});
  const flags = flagsOf(context.argv);
  let console = createConsole(context, flags);
  try {
    return await runProgram(context, (options) => {
      console = createConsole(context, options);
      return console;
    });
  } catch (error) {
    if (isClosedPipe(error)) return exitCodes.ok;
    // Use the console of the command if there is one, because it redacts the keys that the error may contain.
    if (flags.debug) printStack(console, error);
    return printError(console, error);
  }
}

type OpenConsole = (options: ConsoleOptions) => Console;

/** Error messages are cut to this number of characters. With --json, they are printed in full. */
const MAX_MESSAGE = 2_000;

/** Prints an error and its hint as text, or with --json as one object. Returns the exit code. */
function printError(console: Console, error: unknown): number {
  const { exitCode, code, message, hint, fields } = toCliError(error);
  const { red, dim } = console.errorColors;
  const next = hint === undefined ? '' : `\n  ${dim('→')} ${sanitizeForTerminal(hint)}`;
  // Redact before cutting, because a part of an API key would not be recognized.
  const start = console.redactAll(message).slice(0, 2 * MAX_MESSAGE);
  const text = `${red('error:')} ${cut(sanitizeForTerminal(start), MAX_MESSAGE)}${next}`;
  console.event({ error: { code, message, ...fields, hint, exitCode } }, text);
  return exitCode;
}

function printStack(console: Console, error: unknown): void {
  const { message, stack = message } = error instanceof Error ? error : new Error(String(error));
  // Line breaks in the message are data, so they are escaped. Line breaks between stack frames are printed.
  const end = stack.indexOf(message) + message.length;
  const frames = stack.slice(end).split('\n').map(sanitizeForTerminal);
  const text = `${sanitizeForTerminal(stack.slice(0, end))}${frames.join('\n')}`;
  console.event({ debug: { stack } }, console.errorColors.dim(text));
}

/**
 * Runs the command that the arguments name, or prints a page of help or the version. Returns the exit code.
 *
 * @throws CliError for wrong usage, or if the output cannot be written; every error of the command
 */
async function runProgram(context: Context, openConsole: OpenConsole): Promise<number> {
  const { argv, env } = context;
  checkArguments(context);
  const parsed = argv.length === 0 ? { text: overviewPage() } : parseCommandLine(argv, env, commands);
  if ('command' in parsed)
    return runCommand(parsed.command, parsed.options, { ...context, ...parsed }, openConsole);
  await openConsole(flagsOf(argv)).write(parsed.text);
  return exitCodes.ok;
}

/** Runs a command with a console for the format and the file that its options choose. Returns the exit code. */
async function runCommand(
  command: Command,
  options: Record<string, unknown>,
  context: Omit<CommandContext, 'console' | 'startedAt'>,
  openConsole: OpenConsole,
): Promise<number> {
  const { globals, stdout } = context;
  const { prints } = command;
  const { output: file }: OutputOptions = options;
  const isTerminal = stdout.isTTY === true;
  const format = prints && chooseFormat(options, { json: globals.json, isTerminal, prints });
  const output =
    file === undefined
      ? undefined
      : (await import('./output/output-file.ts')).openOutput(file, command.printsKey ? 0o600 : 0o666);
  const console = openConsole({ ...globals, format, output });
  // Load it before the command waits for a response: an update of pets meanwhile would remove the module.
  if (format === 'table') await import('./output/table.ts');
  try {
    const startedAt = context.clock.elapsed();
    const exitCode = await command.run(options as never, { ...context, console, startedAt });
    await console.finish();
    return exitCode ?? exitCodes.ok;
  } finally {
    console.showStatus(undefined);
  }
}

/** Matches a URL with a password. The URL of a database may lack slashes or the colon. */
const URL_WITH_PASSWORD =
  /(?:^|[^\w+.-])(?:[\w+.-]+:\/\/|postgres(?:ql)?(?:\/\/|:\/?))(?:[^:@]*:.+@|.*[?&](?:ssl)?password=.)/is;

/** Refuses comments and URLs with passwords before `--`, a CR at the end, and bytes that are not UTF-8. @throws CliError */
function checkArguments(context: Context): void {
  const { argv } = context;
  const words = wordsBeforeEnd(argv);
  if (words.includes('#'))
    throw usageError('in this shell, # begins no comment', 'leave it out, or: setopt interactive_comments');
  if (words.some((word) => URL_WITH_PASSWORD.test(word)))
    throw usageError(
      'a URL in the command line contains a password, which other users of this machine can see',
      'for a database, put the password into ~/.pgpass or PGPASSWORD; for a service, leave out user and password: pets login asks for the key',
    );
  const invalid = [...argv, resolve(configDirectory(context)), resolve(stateDirectory(context))].find(
    (word) => /\ufffd|\r$/.test(word),
  );
  if (invalid === undefined) return;
  throw usageError(
    `${invalid} contains unreadable characters`,
    'if they are \\r, convert the script or list with dos2unix; otherwise, set the encoding of the terminal or script to UTF-8, and rename a file or directory whose name is not UTF-8',
  );
}
