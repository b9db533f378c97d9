import { Command as Commander, CommanderError } from 'commander';
import { commands } from '../commands/index.ts';
import type { Context } from '../context.ts';
import { exitCodes } from '../errors/codes.ts';
import { type Console, createConsole } from '../output/console.ts';
import { wrapText } from '../output/width.ts';
import type { Command, GlobalOptions } from './command.ts';
import { version } from './compile-cache.ts';
import { addArgument, addOption, helpFor, namedArguments, parseNamed } from './declare.ts';
import { globalOptions, helpOption, versionOption } from './global-options.ts';
import { addHelpCommand, helpCommands, narrowHelp, overview, startPage } from './help.ts';
import { seconds } from './parsers.ts';
import { toUsageError } from './usage.ts';

/** Help is not laid out wider than this, because long lines are hard to read. */
const MAX_HELP_COLUMNS = 80;

/**
 * Parses the arguments and runs the command that they name. Returns the exit code. Help is written to `helpConsole`.
 *
 * @throws CliError for wrong usage, and every error of the command
 */
export async function runProgram(context: Context, helpConsole: Console): Promise<number> {
  let exitCode: number = exitCodes.ok;
  let written = Promise.resolve();
  const show = (text: string) => {
    written = written.then(() => helpConsole.write(text));
  };
  const columns = Math.min(context.stdout.columns || MAX_HELP_COLUMNS, MAX_HELP_COLUMNS);
  let groupHelp = '';
  const writeErr = (text: string) => {
    groupHelp += text;
  };
  const configure = (command: Commander) =>
    command
      .exitOverride()
      .configureOutput({
        writeOut: show,
        writeErr,
        getOutHelpWidth: () => columns,
        getErrHelpWidth: () => columns,
      })
      .configureHelp({ showGlobalOptions: true, ...narrowHelp(columns) })
      .helpCommand(false)
      .helpOption(helpOption.flags, helpOption.description);

  const program = configure(new Commander('pets'))
    .version(version, versionOption.flags, versionOption.description)
    .usage('<command> [options]')
    // Passed as functions, so that these texts are only built if help is printed.
    .addHelpText('before', () => overview(columns))
    .addHelpText('after', () => `\n${helpCommands(columns)}`)
    .showSuggestionAfterError();
  for (const option of globalOptions) addOption(program, option);

  const addCommand = (parent: Commander, command: Command<never>) => {
    const child = configure(parent.command(command.name)).summary(command.summary);
    for (const argument of command.arguments ?? []) addArgument(child, argument);
    for (const option of command.options ?? []) addOption(child, option);
    child.addHelpText('before', () => {
      const examples = command.examples.map((line) => `  ${line}\n`).join('');
      return `${wrapText(command.summary, columns, 0)}\n\nExamples:\n${examples}`;
    });
    child.action(async (...args) => {
      const globals = globalsOf(child, context);
      const options = { ...child.opts(), ...namedArguments(command, args) };
      command.check?.(options as never);
      const code = await command.run(options as never, {
        ...context,
        globals,
        console: createConsole(context, globals),
      });
      exitCode = code ?? exitCodes.ok;
    });
  };
  for (const entry of commands) {
    if ('run' in entry) addCommand(program, entry);
    else {
      const group = configure(program.command(entry.name)).summary(entry.summary);
      group.addHelpText('before', `${entry.summary}\n`);
      for (const command of entry.commands) addCommand(group, command);
    }
  }
  addHelpCommand(configure(program.command('help [topic...]')), program, columns, show);

  if (context.argv.length === 0) {
    await helpConsole.write(startPage([...commands.map(({ name }) => name), 'help'], columns));
    return exitCode;
  }
  try {
    await program.parseAsync(context.argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // A group without a command prints its help.
    if (error.code === 'commander.help' && !context.argv.includes('--json')) show(groupHelp);
    else if (error.exitCode !== 0) throw toUsageError(error, program.args);
  }
  await written;
  return exitCode;
}

/** The values of the global options. PETS_MAX_WAIT replaces the default of --max-wait. */
function globalsOf(command: Commander, { env }: Context): GlobalOptions {
  const given = command.optsWithGlobals<Omit<GlobalOptions, 'json' | 'debug'>>();
  const globals: GlobalOptions = { json: false, debug: false, ...given };
  const text = env['PETS_MAX_WAIT'];
  if (!text || command.getOptionValueSourceWithGlobals('maxWait') !== 'default') return globals;
  return { ...globals, maxWait: parseNamed('PETS_MAX_WAIT', seconds(0), helpFor(command))(text) as number };
}
