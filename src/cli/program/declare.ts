import type { Command as Commander, Option as CommanderOption } from 'commander';
import { usageError } from '../core/errors.ts';
import { ArgumentError, oneOf } from '../core/parsers.ts';
import type { Argument, Command, Option } from './command.ts';
import { optionsOf } from './output-options.ts';

/** Adds declared arguments and options to a commander command. */
export function declare(
  command: Commander,
  { arguments: args = [], ...declaration }: Pick<Command, 'arguments' | 'options' | 'prints'>,
): void {
  const help = helpFor(command);
  for (const declared of args) {
    const argument = command.createArgument(declared.name, describeDeclared(declared));
    const parse = parserOf(declared, argument.name(), declared.hint ?? help, argument.variadic);
    command.addArgument(parse ? argument.argParser(parse) : argument);
  }
  for (const declared of optionsOf(declaration)) {
    const option = command.createOption(declared.flags, describeDeclared(declared));
    const name = option.long ?? declared.flags;
    const parse = parserOf(declared, name, declared.hint ?? help, declared.repeatable);
    // A command that prints data would ignore a condition that the user gave. Settings, such as `--profile` or the options
    // of `pets serve`, may be in a script or an alias, and a later value replaces them.
    const isSingle = option.required && !declared.repeatable && declaration.prints !== undefined;
    if (isSingle) option.argParser(onlyOnce(command, option, parse));
    else if (parse) option.argParser(parse);
    // The second argument is the text for help; without it commander prints strings in quotes.
    if (declared.default !== undefined) option.default(declared.default, String(declared.default));
    if (declared.group !== undefined) option.helpGroup(`${declared.group}:`);
    if (declared.conflicts) option.conflicts([...declared.conflicts]);
    command.addOption(option);
  }
}

/** Wraps a parser so that a second value is an error. Otherwise, it would silently replace the first one. */
const onlyOnce =
  (
    command: Commander,
    option: CommanderOption,
    parse: ReturnType<typeof parserOf> = (text: string) => text,
  ) =>
  (text: string, previous: unknown): unknown => {
    if (command.getOptionValueSource(option.attributeName()) === 'cli')
      throw usageError(`${option.long} is given twice`, helpFor(command));
    return parse(text, previous);
  };

/** The values of the positional arguments by name. Property `id` contains the value of `<id...>`, for example. */
export const namedArguments = ({ registeredArguments, processedArgs }: Commander): Record<string, unknown> =>
  Object.fromEntries(registeredArguments.map((argument, i) => [argument.name(), processedArgs[i]]));

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

/** A hint that shows how to get help for a commander command. */
export function helpFor(command: Commander): string {
  const names: string[] = [];
  for (let each = command; each.parent; each = each.parent) names.unshift(each.name());
  return `see: ${['pets', 'help', ...names].join(' ')}`;
}

/** The description of an argument or option with its valid values. */
export const describeDeclared = ({ description, choices }: Argument | Option): string =>
  choices === undefined ? description : `${description}: ${choices.join(', ')}`;

/** Returns a parser for commander. With `collect`, the parser appends to the values of earlier occurrences. */
function parserOf({ parse, choices }: Argument | Option, name: string, hint: string, collect = false) {
  const parser = parse ?? (choices && oneOf(choices));
  const checked = parser && parseNamed(name, parser, hint, choices);
  if (!checked || !collect) return checked;
  return (text: string, previous: unknown) => [...((previous as unknown[] | undefined) ?? []), checked(text)];
}
