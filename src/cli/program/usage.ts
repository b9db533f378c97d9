import type { CommanderError } from 'commander';
import { petStatuses } from '../../contract/schemas.ts';
import type { Command } from '../command.ts';
import { commands } from '../commands/index.ts';
import { type CliError, usageError } from '../errors/cli-error.ts';

/** What people type who know other tools. */
const MEANT: Readonly<Record<string, string>> = {
  ls: 'list',
  all: 'list --all',
  search: 'list --all',
  export: 'list --all --csv',
  show: 'get <id>',
  view: 'get <id>',
  find: 'get <id>',
  create: 'add <name> --category <id>',
  new: 'add <name> --category <id>',
  import: 'add --from <file>',
  auth: 'login',
  signin: 'login',
  signout: 'logout',
  config: 'profiles',
  whoami: 'profiles --check',
  quota: 'profiles --check',
  switch: 'use <profile>',
  mock: 'serve',
  server: 'serve',
  start: 'serve',
  version: '--version',
};

/** What the specification has no operation for. */
const NOT_THERE = new Set(['delete', 'remove', 'rm', 'update', 'edit', 'set', 'sell', 'buy']);

/** The arguments but for options. */
type Words = readonly string[];

/** An error of the arguments' parser: its own words, and what was probably meant. */
export function usageOf(error: CommanderError, words: Words): CliError {
  const [text = '', suggestion] = error.message.replace(/^error: /, '').split('\n');
  const meant = suggestion?.replace(/^\((.*)\)$/, '$1').replace(/^D/, 'd');
  const command = commandOf(words);
  const see = `see: pets help${command ? ` ${nameOf(words, command)}` : ''}`;
  switch (error.code) {
    case 'commander.unknownCommand':
      return unknownCommand(text, unknownWord(words), meant, see);
    case 'commander.excessArguments':
      return excess(text, words, see);
    case 'commander.missingArgument':
    case 'commander.missingMandatoryOptionValue':
      return usageError(text, command ? `for example: ${command.examples[0]}` : see);
    default:
      return usageError(text, meant ? `${meant} ${see[0]?.toUpperCase()}${see.slice(1)}` : see);
  }
}

function unknownCommand(text: string, word: string, meant: string | undefined, see: string): CliError {
  if (NOT_THERE.has(word))
    return usageError(text, 'the service can add and show animals, not change or remove them: pets help');
  const known = MEANT[word];
  if (known !== undefined) return usageError(text, `did you mean: pets ${known}`);
  return usageError(text, meant ?? see);
}

function excess(text: string, words: Words, see: string): CliError {
  const [name, ...rest] = words;
  if (name === 'add') {
    return usageError(
      'add takes one name',
      'put quotes around a name of several words: pets add "Lady Bella" --category 1',
    );
  }
  const status = name === 'list' && petStatuses.find((each) => each === rest[0]);
  return usageError(text, status ? `did you mean: pets list --status ${status}` : see);
}

/** The first word, or the one behind a group's name. */
function unknownWord([first = '', second = '']: Words): string {
  return commands.some(({ name }) => name === first) ? second : first;
}

/** The command that the words name, also one of a group. */
function commandOf([name, second]: Words): Command<never> | undefined {
  const entry = commands.find((each) => each.name === name);
  if (entry === undefined || 'run' in entry) return entry;
  return entry.commands.find((each) => each.name === second);
}

const nameOf = (words: Words, command: Command<never>): string =>
  words[0] === command.name ? command.name : `${words[0]} ${command.name}`;
