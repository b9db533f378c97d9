import { Command as Commander, CommanderError } from 'commander';
import { seconds } from '../arguments.ts';
import type { Command, CommandGroup, Runtime } from '../command.ts';
import { commands } from '../commands/index.ts';
import type { Context } from '../context.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { globalOptions, helpOption, versionOption } from '../global-options.ts';
import type { Globals } from '../globals.ts';
import { createConsole, OutputError } from '../output/console.ts';
import { wrapText } from '../output/wrap.ts';
import { version } from '../version.ts';
import { addArgument, addOption, helpFor, named, namedArguments } from './declare.ts';
import { addHelpCommand, afterwards, narrowHelp, overview, startPage } from './help.ts';
import { usageOf } from './usage.ts';

/** What help is laid out for; a wider terminal makes it no easier to read. */
const HELP_COLUMNS = 80;

/**
 * Parses the arguments and runs the command that they name.
 *
 * @throws CliError for wrong usage, and whatever the command throws
 */
export async function runProgram(context: Context): Promise<number> {
  let exitCode: number = exitCodes.ok;
  let written = Promise.resolve();
  const show = (text: string) => {
    written = written.then(() => writeHelp(context, text));
  };
  const columns = Math.min(context.stdout.columns || HELP_COLUMNS, HELP_COLUMNS);
  let help = '';
  const writeErr = (text: string) => {
    help += text;
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
    // As functions: most runs show no help.
    .addHelpText('before', () => overview(columns))
    .addHelpText('after', () => `\n${afterwards(columns)}`)
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
      const runtime: Runtime = { context, globals, console: createConsole(context, globals) };
      exitCode = await command.run(options as never, runtime);
    });
  };
  for (const entry of commands) {
    if ('run' in entry) addCommand(program, entry);
    else addGroup(configure(program.command(entry.name)), entry, addCommand);
  }
  addHelpCommand(configure(program.command('help [topic...]')), program, columns, show);

  if (context.argv.length === 0) {
    show(startPage([...commands.map(({ name }) => name), 'help'], columns));
    await written;
    return exitCode;
  }
  try {
    await program.parseAsync(context.argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // A group without a command: its help, as somebody who looks around expects.
    if (error.code === 'commander.help' && !context.argv.includes('--json')) show(help);
    else if (error.exitCode !== 0) throw usageOf(error, program.args);
  }
  await written;
  return exitCode;
}

/** What a switch is that was not given. */
const switchedOff = { json: false, debug: false };

/** PETS_MAX_WAIT stands for a flag that was not given. */
function globalsOf(command: Commander, { env }: Context): Globals {
  const given = command.optsWithGlobals<Omit<Globals, keyof typeof switchedOff> & Partial<Globals>>();
  const globals: Globals = { ...switchedOff, ...given };
  const text = env['PETS_MAX_WAIT'];
  if (!text || command.getOptionValueSourceWithGlobals('maxWait') !== 'default') return globals;
  return { ...globals, maxWait: named('PETS_MAX_WAIT', seconds(0), helpFor(command))(text) as number };
}

function addGroup(
  parent: Commander,
  group: CommandGroup,
  add: (parent: Commander, command: Command<never>) => void,
) {
  parent.summary(group.summary).addHelpText('before', `${group.summary}\n`);
  for (const command of group.commands) add(parent, command);
}

async function writeHelp(context: Context, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    context.stdout.write(text, (error) => (error ? reject(new OutputError(error)) : resolve()));
  });
}
