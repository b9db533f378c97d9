import { type Command as Commander, Option as CommanderOption } from 'commander';
import { usageError } from '../errors/errors.ts';
import type { Argument, Command, Option } from './command.ts';
import { ArgumentError, oneOf } from './parsers.ts';

/** Adds one of our arguments to a commander command. */
export function addArgument(command: Commander, declared: Argument): void {
  const argument = command.createArgument(declared.name, describe(declared));
  const parse = parserOf(declared, argument.name(), declared.hint ?? helpFor(command), argument.variadic);
  command.addArgument(parse ? argument.argParser(parse) : argument);
}

/** Adds one of our options to a commander command. */
export function addOption(command: Commander, declared: Option): void {
  const option = new CommanderOption(declared.flags, describe(declared));
  const parse = parserOf(declared, option.long ?? declared.flags, helpFor(command), declared.repeatable);
  if (parse) option.argParser(parse);
  // The second argument is the text for help; without it commander prints strings in quotes.
  if (declared.default !== undefined) option.default(declared.default, String(declared.default));
  command.addOption(option.makeOptionMandatory(declared.required ?? false));
}

/** Positional arguments as an object: the value of `<id...>` becomes property `id`. */
export function namedArguments(
  { arguments: declared = [] }: Command<never>,
  values: readonly unknown[],
): Record<string, unknown> {
  return Object.fromEntries(declared.map(({ name }, i) => [name.replace(/[<>[\].]/g, ''), values[i]]));
}

/** Wraps a parser so that its errors name the argument or option and include a hint. */
export const parseNamed =
  (name: string, parse: (text: string) => unknown, hint: string, choices: readonly string[] = []) =>
  (text: string): unknown => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      const lowerCase = choices.find((choice) => choice === text.trim().toLowerCase());
      throw usageError(
        `${name} ${error.message}, not ${JSON.stringify(text)}`,
        lowerCase === undefined ? hint : `did you mean ${lowerCase}? Use lower case`,
      );
    }
  };

/** A hint with the help command of a commander command. */
export function helpFor(command: Commander): string {
  const names: string[] = [];
  for (let each = command; each.parent; each = each.parent) names.unshift(each.name());
  return `see: ${['pets', 'help', ...names].join(' ')}`;
}

const describe = ({ description, choices }: Argument | Option): string =>
  choices === undefined ? description : `${description}: ${choices.join(', ')}`;

/** The parser in the form that commander expects. With `collect`, appends to the values of earlier occurrences. */
function parserOf({ parse, choices }: Argument | Option, name: string, hint: string, collect = false) {
  const parser = parse ?? (choices && oneOf(choices));
  if (parser === undefined) return undefined;
  const checked = parseNamed(name, parser, hint, choices);
  if (!collect) return checked;
  return (text: string, previous: unknown) => [...((previous as unknown[] | undefined) ?? []), checked(text)];
}
