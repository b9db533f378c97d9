import type { Command as Commander, CommanderError } from 'commander';
import { type CliError, usageError } from '../core/errors.ts';
import type { Command, CommandContext } from './command.ts';
import { suggestCommand, suggestForExtraArguments, suggestForOption } from './suggestions.ts';

/**
 * Converts an error of commander into a usage error with a hint. The arguments of `program` are the command line without
 * global options that precede the command.
 */
export function toUsageError(
  error: CommanderError,
  program: Commander,
  commands: CommandContext['commands'],
): CliError {
  const given = program.args;
  // The suggestion of commander is on the last line. Arguments that commander quotes may contain line breaks too.
  const [, text = '', suggestion] =
    /^(?:error: )?(.*?)(?:\n\((Did you mean .*)\))?$/s.exec(error.message) ?? [];
  const [, mistyped = ''] = /'([^'=]*)/.exec(text) ?? [];
  const similar = closeSuggestion(suggestion, mistyped);
  const firstOption = given.findIndex((word) => word.startsWith('-'));
  const words = firstOption === -1 ? given : given.slice(0, firstOption);
  const { name, command } = commandOf(words, commands);
  const see = `see: pets help${name && ` ${name}`}`;
  switch (error.code) {
    case 'commander.unknownCommand':
      return usageError(
        text,
        suggestCommand(words.slice(0, 2).join(' ')) ?? suggestCommand(words[0] ?? '') ?? similar ?? see,
      );
    case 'commander.excessArguments': {
      const [rest, options] = [words.slice(name.split(' ').length), given.slice(words.length)];
      // The word may follow an option. A hint would then be a guess, because the option may have been meant to take it.
      const [later] =
        name === 'add' ? [] : commanderAt(program, name).args.slice(command?.arguments?.length ?? 0);
      const message = excessText(name, rest[0] ?? later ?? options[0] ?? '', command);
      if (rest.length === 0 && later !== undefined && name !== 'login')
        return usageError(message, `put quotes around a value with spaces. ${capital(see)}`);
      return usageError(message, suggestForExtraArguments(name, rest, options) ?? see);
    }
    case 'commander.unknownOption': {
      // Do not echo the value of the option, because it may be an API key.
      const [, option = ''] = /'(-[\w-]*)/.exec(text) ?? [];
      if (similar === `did you mean ${option}?`) return usageError(`${option} does not take a value`, see);
      return usageError(`unknown option ${option}`, suggestForOption(name, option) ?? withSee(similar, see));
    }
    case 'commander.help':
      return usageError('missing command', see);
    case 'commander.optionMissingArgument': {
      const [, flag = ''] = /'(?:-\w, )?(--[\w-]+)/.exec(text) ?? [];
      const example = command?.examples.find((line) => line.split(' ').includes(flag));
      return usageError(`${flag} needs a value`, example === undefined ? see : `for example: ${example}`);
    }
    case 'commander.conflictingOption':
      return usageError(text.replace(/option '(--[\w-]+)[^']*'/g, '$1'), see);
    case 'commander.missingArgument':
      return usageError(
        text.replace(/^missing required argument '(.*)'$/, 'missing <$1>'),
        command ? `for example: ${command.examples[0]}` : see,
      );
    default:
      return usageError(text, see);
  }
}

/** The commander command with a full name, such as `keys add`. */
const commanderAt = (program: Commander, name: string): Commander =>
  name
    .split(' ')
    .reduce((parent, word) => parent.commands.find((child) => child.name() === word) ?? parent, program);

/** The message for excess arguments. Arguments of `login` may be API keys, so the message does not contain them. */
function excessText(name: string, word: string, command: Command | undefined): string {
  if (name === 'add') return 'add accepts only one name';
  const taken = command?.arguments?.length ?? 0;
  if (taken > 0) return `${name} accepts at most ${taken === 1 ? 'one argument' : `${taken} arguments`}`;
  if (name === 'login') return 'login does not accept arguments';
  return `${name} does not accept the argument ${word === '' ? '""' : word}`;
}

/**
 * The suggestion of commander without the words that are too different from `mistyped`: commander accepts up to three
 * changed letters, wherever they are. A typing error is in one place, so at least half of the word is right before and
 * after it together.
 */
function closeSuggestion(suggestion: string | undefined, mistyped: string): string | undefined {
  const typed = mistyped.replace(/^--/, '');
  const words = suggestion?.replace(/^Did you mean (one of )?|\?$/g, '').split(', ') ?? [];
  const close = words.filter((word) => {
    const meant = word.replace(/^--/, '');
    const shorter = Math.min(typed.length, meant.length);
    let start = 0;
    while (start < shorter && typed[start] === meant[start]) start++;
    let end = 0;
    while (end < shorter - start && typed.at(-1 - end) === meant.at(-1 - end)) end++;
    return start + end >= Math.max(typed.length, meant.length) / 2;
  });
  if (close.length === 0) return undefined;
  return `did you mean ${close.length > 1 ? 'one of ' : ''}${close.join(', ')}?`;
}

const withSee = (similar: string | undefined, see: string): string =>
  similar ? `${similar} ${capital(see)}` : see;

const capital = (text: string): string => `${text[0]?.toUpperCase()}${text.slice(1)}`;

/** The command at the start of the words, and its full name, such as `keys add`; an empty name if there is none. */
function commandOf(
  [first, second]: readonly string[],
  commands: CommandContext['commands'],
): { name: string; command?: Command } {
  const entry = commands.find(({ name }) => name === first);
  if (entry && 'run' in entry) return { name: entry.name, command: entry };
  const command = entry?.commands.find(({ name }) => name === second);
  return command ? { name: `${first} ${second}`, command } : { name: '' };
}
