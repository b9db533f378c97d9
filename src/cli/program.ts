import { Command as Commander, CommanderError, Option as CommanderOption } from 'commander';
import { by, seconds } from './arguments.ts';
import { type CliError, usageError } from './cli-error.ts';
import type { Argument, Command, CommandGroup, Option, Runtime } from './command.ts';
import { commands } from './commands/index.ts';
import type { Context } from './context.ts';
import { exitCodeMeanings, exitCodes } from './exit-codes.ts';
import type { Globals } from './globals.ts';
import { colourModes } from './output/colour.ts';
import { createConsole, OutputError } from './output/console.ts';
import { ProfileName, profileNames } from './profiles/profile.ts';
import { version } from './version.ts';

const globalOptions: readonly Option[] = [
  {
    flags: '--profile <name>',
    description: `profile to use: ${profileNames.join(', ')}`,
    parse: by(ProfileName),
  },
  { flags: '--base-url <url>', description: "the service's address, with /v1" },
  {
    flags: '--json',
    description: 'write one JSON document to stdout, and JSON lines to stderr',
    default: false,
  },
  {
    flags: '--max-wait <seconds>',
    description: 'longest wait for one request; 0 never waits',
    parse: seconds(0),
    default: 75,
  },
  {
    flags: '--timeout <seconds>',
    description: 'longest time for one attempt',
    parse: seconds(0.001),
    default: 30,
  },
  { flags: '--no-retry', description: 'send each request once' },
  { flags: '--debug', description: 'tell every step on stderr', default: false },
  { flags: '--color <when>', description: 'colours', choices: colourModes, default: 'auto' },
  { flags: '--no-input', description: 'never ask anything' },
];

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
  const configure = (command: Commander) =>
    command
      .exitOverride()
      .configureOutput({ writeOut: show, writeErr: () => {} })
      .helpCommand(false);

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
      const globals = child.optsWithGlobals() as Globals;
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
    if (error.exitCode !== 0) throw usageOf(error, context.argv);
  }
  await written;
  return exitCode;
}

function addGroup(
  parent: Commander,
  group: CommandGroup,
  add: (parent: Commander, command: Command<never>) => void,
) {
  parent.summary(group.summary).description(group.summary);
  for (const command of group.commands) add(parent, command);
}

function addArgument(command: Commander, { name, description, parse }: Argument): void {
  const argument = command.createArgument(name, description);
  if (parse) argument.argParser(argument.variadic ? collect(parse) : parse);
  command.addArgument(argument);
}

const collect =
  (parse: (text: string) => unknown) =>
  (text: string, previous: unknown): unknown[] => [
    ...((previous as unknown[] | undefined) ?? []),
    parse(text),
  ];

function addOption(command: Commander, option: Option): void {
  const added = new CommanderOption(option.flags, option.description);
  if (option.choices) added.choices(option.choices);
  if (option.parse) added.argParser(option.parse);
  if (option.default !== undefined) added.default(option.default);
  if (option.required) added.makeOptionMandatory();
  command.addOption(added);
}

/** Positional arguments under their names: `<id...>` becomes `id`. */
function namedArguments(command: Command<never>, values: readonly unknown[]): Record<string, unknown> {
  const names = (command.arguments ?? []).map(({ name }) => name.replace(/[<>[\].]/g, ''));
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

const overview = `Examples:
  pets list --status available          what can be sold today
  pets add Rex --category 3             a new animal
  pets list --all --json | jq length    for a script
  pets serve --seed                     the service on this machine, with sample animals

First steps:
  pets login                            save the key of the store's service
  pets help exit-codes                  what a script can rely on
`;

function addHelpCommand(help: Commander, program: Commander, show: (text: string) => void): void {
  help.summary('show help for a command, or exit-codes').action((topics: string[]) => {
    if (topics[0] === 'exit-codes') {
      show(exitCodeMeanings.map(([code, meaning]) => `${String(code).padStart(3)}  ${meaning}\n`).join(''));
      return;
    }
    let command = program;
    for (const topic of topics) {
      const next = command.commands.find((child) => child.name() === topic);
      if (next === undefined) throw usageError(`there is no help for ${topics.join(' ')}`, 'see: pets help');
      command = next;
    }
    command.outputHelp();
  });
}

/** Commander's own wording, without its prefix, and with the help page that would have told. */
function usageOf(error: CommanderError, argv: readonly string[]): CliError {
  if (error.code === 'commander.help') return usageError('no command is given', 'see: pets help');
  const message = error.message.replace(/^error: /, '').replace(/\n/g, ' ');
  const command = commands.find(({ name }) => name === argv.find((argument) => !argument.startsWith('-')));
  return usageError(message, `see: pets help${command ? ` ${command.name}` : ''}`);
}

async function writeHelp(context: Context, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    context.stdout.write(text, (error) => (error ? reject(new OutputError(error)) : resolve()));
  });
}
