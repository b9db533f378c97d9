import { Command as Commander, CommanderError } from 'commander';
import { commands } from './commands/index.ts';
import { printError, printStack } from './connection/reporting.ts';
import type { Context } from './core/context.ts';
import { usageError } from './core/errors.ts';
import { exitCodes } from './core/exit-codes.ts';
import { seconds } from './core/parsers.ts';
import { version } from './core/version-details.ts';
import { CallError } from './errors/call-error.ts';
import { describeError } from './errors/describe-error.ts';
import { colourModes } from './output/colour.ts';
import { type Console, createConsole, isClosedPipe } from './output/console.ts';
import { chooseFormat, type OutputOptions } from './output/format.ts';
import type { Command, CommandContext, GlobalOptions } from './program/command.ts';
import { declare, helpFor, namedArguments, parseNamed } from './program/declare.ts';
import { globalOptions, helpOption, versionOption } from './program/global-options.ts';
import * as helpPages from './program/help.ts';
import { toUsageError } from './program/usage.ts';

/** Runs the program and returns its exit code. Errors are printed, not thrown. A closed output pipe is not an error. */
export async function main(context: Context): Promise<number> {
  // Without a listener, the `error` event would end the process. `Console.write` rejects if a write fails.
  context.stdout.on('error', () => {});
  context.stderr.on('error', () => {});
  const flags = preParseFlags(context.argv);
  const console = createConsole(context, flags);
  try {
    return await runProgram(context, console);
  } catch (error) {
    const cause = error instanceof CallError ? error.cause : error;
    if (isClosedPipe(cause)) return exitCodes.ok;
    const userError = describeError(error, { ...context, console });
    if (flags.debug) printStack(console, error);
    printError(console, userError);
    return userError.exitCode;
  }
}

/** Reads the flags that decide how errors are printed, before the arguments are parsed and even if they are invalid. */
export function preParseFlags(argv: readonly string[]): Pick<GlobalOptions, 'json' | 'debug' | 'color'> {
  const end = argv.indexOf('--');
  const own = end === -1 ? argv : argv.slice(0, end);
  const [, colour] = [...own.join('\n').matchAll(/^--color[=\n](.*)$/gm)].at(-1) ?? [];
  return {
    json: own.includes('--json'),
    debug: own.includes('--debug'),
    color: colourModes.find((mode) => mode === colour) ?? 'auto',
  };
}

/**
 * Parses the arguments and runs the command that they name. Returns the exit code. Help is written to `helpConsole`.
 *
 * @throws CliError for wrong usage, and every error of the command
 */
async function runProgram(context: Context, helpConsole: Console): Promise<number> {
  checkEncoding(context.argv);
  let exitCode: number = exitCodes.ok;
  let help = '';
  const addHelp = (text: string) => {
    help += text;
  };
  const columns = Math.min(context.stdout.columns || helpPages.MAX_HELP_COLUMNS, helpPages.MAX_HELP_COLUMNS);
  // Subcommands inherit exitOverride, configureOutput, configureHelp and helpOption. The rest applies only to `pets`.
  const program = new Commander('pets')
    .exitOverride()
    .configureOutput({ writeOut: addHelp, writeErr: addHelp })
    .configureHelp({
      helpWidth: columns,
      // Almost every command has options, so `[options]` would only make the list wider.
      subcommandTerm: (command) =>
        `${command.name()} ${command.usage()}`.replace(/ \[(options|command)\]/g, ''),
      showGlobalOptions: true,
      ...(columns < helpPages.MAX_HELP_COLUMNS && helpPages.narrowHelp(columns)),
    })
    .helpOption(helpOption.flags, helpOption.description)
    .helpCommand(false)
    .version(version, versionOption.flags, versionOption.description)
    .usage('<command> [options]')
    // These texts are functions, so that they are built only if help is printed.
    .addHelpText('before', () => helpPages.overview(columns))
    .addHelpText('after', () => `\n${helpPages.helpCommands(columns)}`);
  declare(program, { options: globalOptions });

  const addCommand = (parent: Commander, command: Command) => {
    const child = parent.command(command.name).summary(command.summary);
    child.addHelpText('before', () => helpPages.commandOverview(command, columns));
    // Declaring the options of all commands takes milliseconds, and only a command that is named can run or show its help.
    const isNamed = context.argv.includes(command.name);
    declare(child, isNamed ? command : { ...command, options: [], prints: [] });
    child.action(async () => {
      const globals = globalsOf(child, context);
      const options: Record<string, unknown> = { ...child.opts(), ...namedArguments(child) };
      command.check?.(options as never);
      exitCode = await runCommand(command, options, { ...context, globals, commands });
    });
  };
  for (const entry of commands) {
    if ('run' in entry) addCommand(program, entry);
    else {
      const group = program.command(entry.name).summary(entry.summary).helpCommand(false);
      group.addHelpText('before', `${entry.summary}\n`);
      for (const command of entry.commands) addCommand(group, command);
    }
  }
  helpPages.addHelpCommand(program, columns, addHelp);

  let isVersion = false;
  try {
    if (context.argv.length > 0) await program.parseAsync(context.argv, { from: 'user' });
    else addHelp(helpPages.startPage([...commands.map(({ name }) => name), 'help'], columns));
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // `pets keys` without a subcommand prints the help of the group. With `--json`, this is an error.
    const isGroupHelp = error.code === 'commander.help' && !context.argv.includes('--json');
    if (error.exitCode !== 0 && !isGroupHelp) throw toUsageError(error, program, commands);
    isVersion = error.code === 'commander.version';
  }
  if (isVersion && helpConsole.json) await helpConsole.writeJson(context.versionDetails());
  else if (help !== '') await helpConsole.write(help);
  return exitCode;
}

/** Runs a command with a console for the format and the file that its options choose. Returns the exit code. */
async function runCommand(
  command: Command,
  options: Record<string, unknown>,
  context: Omit<CommandContext, 'console'>,
): Promise<number> {
  const { globals } = context;
  const { width, output: file }: OutputOptions = options;
  const prints = command.prints && chooseFormat(options, { prints: command.prints, json: globals.json });
  const output =
    file === undefined
      ? undefined
      : await (await import('./output/open-output.ts')).openOutput(
          file,
          context,
          command.printsKey ? 0o600 : 0o666,
        );
  const console = createConsole(context, { ...globals, ...prints, width, output });
  try {
    const exitCode = await command.run(options as never, { ...context, console });
    await console.finish();
    return exitCode ?? exitCodes.ok;
  } finally {
    output?.discard();
  }
}

/** Node replaces bytes that are not UTF-8, so an argument would mean another name or file. @throws CliError */
function checkEncoding(argv: readonly string[]): void {
  const invalid = argv.find((word) => word.includes('\ufffd'));
  if (invalid === undefined) return;
  throw usageError(
    `the argument ${invalid} is not UTF-8 text`,
    'set the encoding of the terminal or script to UTF-8; rename a file whose name is not UTF-8',
  );
}

/** The values of the global options. PETS_MAX_WAIT replaces the default of --max-wait, and PETS_STRICT=1 sets --strict. */
function globalsOf(command: Commander, { env }: Context): GlobalOptions {
  const given = command.optsWithGlobals<Omit<GlobalOptions, 'json' | 'debug' | 'strict'>>();
  const strict = env['PETS_STRICT'] === '1';
  const globals: GlobalOptions = { json: false, debug: false, strict, ...given };
  const text = env['PETS_MAX_WAIT'];
  if (!text || command.getOptionValueSourceWithGlobals('maxWait') !== 'default') return globals;
  return { ...globals, maxWait: parseNamed('PETS_MAX_WAIT', seconds(0), helpFor(command))(text) as number };
}
