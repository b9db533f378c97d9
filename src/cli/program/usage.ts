import type { Command as Commander, CommanderError } from 'commander';
import { type CliError, usageError } from '../core/errors.ts';
import type { Command } from './command.ts';
import { commandWords } from './declare.ts';
import { hintForCommand, hintForOption } from './words.ts';

/** Converts an error of commander into a usage error with a hint. `declared` is undefined for the program and groups. */
export function toUsageError(error: CommanderError, command: Commander, declared?: Command): CliError {
  const name = commandWords(command).join(' ');
  const see = `see: ${['pets help', name].join(' ').trimEnd()}`;
  // Commander suggests one word, or several after `one of`, of which the first is a name and not a synonym.
  const [text = '', similar] = error.message
    .replace(/^error: /, '')
    .split(/\n\(Did you mean (?:one of )?([^,]*?)(?:, .*)?\?\)$/s);
  switch (error.code) {
    case 'commander.help':
      return usageError('missing command', see);
    case 'commander.unknownCommand': {
      const typed = [name, command.args[0]].join(' ').trim();
      const meant = similar && `did you mean ${['pets', name, similar].filter(Boolean).join(' ')}?`;
      return usageError(text, hintForCommand(typed) ?? meant ?? see);
    }
    case 'commander.unknownOption': {
      // Do not repeat the value of the option, because it may be an API key.
      const [, option = ''] = /'(-[\w-]*)/.exec(text) ?? [];
      if (similar === option) return usageError(`${option} does not take a value`, see);
      const meant = similar && `did you mean ${similar}? S${see.slice(1)}`;
      return usageError(`unknown option ${option}`, hintForOption(name, option) ?? (meant || see));
    }
    case 'commander.missingArgument': {
      const missing = text.replace(/^missing required argument '(.*)'$/, 'missing <$1>');
      return usageError(missing, declared ? `for example: ${declared.examples[0]}` : see);
    }
    case 'commander.excessArguments':
      return usageError(`too many arguments for pets ${name}`, declared?.extraHint ?? see);
    default:
      return usageError(text.replace(/option '(?:-\w, )?(--[\w-]+)[^']*'/g, '$1'), see);
  }
}
