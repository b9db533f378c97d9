import { Command as Commander, CommanderError, Option as CommanderOption } from 'commander';
import { ArgumentError, oneOf, seconds } from './arguments.ts';
import { type CliError, usageError } from './cli-error.ts';
import type { Argument, Command, CommandGroup, Option, Runtime } from './command.ts';
import { commands } from './commands/index.ts';
import type { Context } from './context.ts';
import { exitCodes } from './exit-codes.ts';
import { globalOptions } from './global-options.ts';
import type { Globals } from './globals.ts';
import { addHelpCommand, overview } from './help.ts';
import { createConsole, OutputError } from './output/console.ts';
import { version } from './version.ts';

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
  let help = '';
  const writeErr = (text: string) => {
    help += text;
  };
  const configure = (command: Commander) =>
    command.exitOverride().configureOutput({ writeOut: show, writeErr }).helpCommand(false);

  const program = configure(new Commander('pets'))
    .description(
      "A command-line tool for a pet store's animal inventory, with the whole service for local work",
    )
    .version(version)
    .usage('<command> [options]')
    .addHelpText('after', `\n${overview}`)
    .showSuggestionAfterError();
  for (const option of globalOptions) addOption(program, option);

  const addCommand = (parent: Commander, command: Command<never>) => {
    const child = configure(parent.command(command.name))
      .summary(command.summary)
      .description(command.summary);
    for (const argument of command.arguments ?? []) addArgument(child, argument);
    for (const option of command.options ?? []) addOption(child, option);
    child.addHelpText('after', `\nExamples:\n${command.examples.map((line) => `  ${line}`).join('\n')}\n`);
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
  addHelpCommand(configure(program.command('help [topic...]')), program, show);

  try {
    await program.parseAsync(context.argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // A group without a command: its help, as somebody who looks around expects.
    if (error.code === 'commander.help') show(help);
    else if (error.exitCode !== 0) throw usageOf(error, context.argv);
  }
  await written;
  return exitCode;
}

/** PETS_MAX_WAIT stands for a flag that was not given. */
function globalsOf(command: Commander, { env }: Context): Globals {
  const globals = command.optsWithGlobals<Globals>();
  const text = env['PETS_MAX_WAIT'];
  if (!text || command.getOptionValueSourceWithGlobals('maxWait') !== 'default') return globals;
  return { ...globals, maxWait: named('PETS_MAX_WAIT', seconds(0), command)(text) as number };
}

function addGroup(
  parent: Commander,
  group: CommandGroup,
  add: (parent: Commander, command: Command<never>) => void,
) {
  parent.summary(group.summary).description(group.summary);
  for (const command of group.commands) add(parent, command);
}

function addArgument(command: Commander, declared: Argument): void {
  const argument = command.createArgument(declared.name, describe(declared));
  const parse = parserOf(declared);
  if (parse) {
    const checked = named(argument.name(), parse, command);
    argument.argParser(argument.variadic ? collect(checked) : checked);
  }
  command.addArgument(argument);
}

const describe = ({ description, choices }: Argument | Option): string =>
  choices === undefined ? description : `${description}: ${choices.join(', ')}`;

const parserOf = ({ parse, choices }: Argument | Option) => parse ?? (choices && oneOf(choices));

/** A parser whose refusal says which argument was wrong, and where to read about it. */
const named =
  (name: string, parse: (text: string) => unknown, command: Commander) =>
  (text: string): unknown => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      throw usageError(`${name} ${error.message}, not ${JSON.stringify(text)}`, helpFor(command));
    }
  };

const collect =
  (parse: (text: string) => unknown) =>
  (text: string, previous: unknown): unknown[] => [
    ...((previous as unknown[] | undefined) ?? []),
    parse(text),
  ];

function addOption(command: Commander, option: Option): void {
  const added = new CommanderOption(option.flags, describe(option));
  const parse = parserOf(option);
  if (parse) {
    const checked = named(added.long ?? option.flags, parse, command);
    added.argParser(option.repeatable ? collect(checked) : checked);
  }
  if (option.default !== undefined) added.default(option.default);
  if (option.required) added.makeOptionMandatory();
  command.addOption(added);
}

/** Positional arguments under their names: `<id...>` becomes `id`. */
function namedArguments(command: Command<never>, values: readonly unknown[]): Record<string, unknown> {
  const names = (command.arguments ?? []).map(({ name }) => name.replace(/[<>[\].]/g, ''));
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

function helpFor(command: Commander): string {
  const names: string[] = [];
  for (let each = command; each.parent; each = each.parent) names.unshift(each.name());
  return `see: ${['pets', 'help', ...names].join(' ')}`;
}

/** Commander's own wording, without its prefix, and with the help page that would have told. */
function usageOf(error: CommanderError, argv: readonly string[]): CliError {
  const message = error.message.replace(/^error: /, '').replace(/\n/g, ' ');
  const command = commands.find(({ name }) => name === operandsOf(argv)[0]);
  if (error.code === 'commander.excessArguments' && command?.name === 'add') {
    return usageError(
      'add takes one name',
      "put quotes around a name of several words: pets add 'Lady Bella' --category 1",
    );
  }
  return usageError(message, `see: pets help${command ? ` ${command.name}` : ''}`);
}

async function writeHelp(context: Context, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    context.stdout.write(text, (error) => (error ? reject(new OutputError(error)) : resolve()));
  });
}

const operandsOf = (argv: readonly string[]): string[] =>
  argv.filter((argument) => !argument.startsWith('-'));
