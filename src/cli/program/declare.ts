import { type Command as Commander, Option as CommanderOption } from 'commander';
import { ArgumentError, oneOf } from '../arguments.ts';
import type { Argument, Command, Option } from '../command.ts';
import { usageError } from '../errors/cli-error.ts';

/** Gives a parser's command one of our arguments. */
export function addArgument(command: Commander, declared: Argument): void {
  const argument = command.createArgument(declared.name, describe(declared));
  const parse = parserOf(declared);
  if (parse) {
    const checked = named(argument.name(), parse, declared.hint ?? helpFor(command), declared.choices);
    argument.argParser(argument.variadic ? collect(checked) : checked);
  }
  command.addArgument(argument);
}

/** Gives a parser's command one of our options. */
export function addOption(command: Commander, option: Option): void {
  const added = new CommanderOption(option.flags, describe(option));
  const parse = parserOf(option);
  if (parse) {
    const checked = named(added.long ?? option.flags, parse, helpFor(command), option.choices);
    added.argParser(option.repeatable ? collect(checked) : checked);
  }
  // In help without the quotes of a JavaScript string.
  if (option.default !== undefined) added.default(option.default, String(option.default));
  if (option.required) added.makeOptionMandatory();
  command.addOption(added);
}

/** Positional arguments under their names: `<id...>` becomes `id`. */
export function namedArguments(
  { arguments: declared = [] }: Command<never>,
  values: readonly unknown[],
): Record<string, unknown> {
  return Object.fromEntries(declared.map(({ name }, i) => [name.replace(/[<>[\].]/g, ''), values[i]]));
}

/** A parser whose refusal says what was wrong, and what helps. */
export const named =
  (name: string, parse: (text: string) => unknown, hint: string, choices: readonly string[] = []) =>
  (text: string): unknown => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      const meant = choices.find((choice) => choice === text.trim().toLowerCase());
      throw usageError(
        `${name} ${error.message}, not ${JSON.stringify(text)}`,
        meant === undefined ? hint : `did you mean ${meant}? Small letters alone`,
      );
    }
  };

/** Where to read about a command. */
export function helpFor(command: Commander): string {
  const names: string[] = [];
  for (let each = command; each.parent; each = each.parent) names.unshift(each.name());
  return `see: ${['pets', 'help', ...names].join(' ')}`;
}

const describe = ({ description, choices }: Argument | Option): string =>
  choices === undefined ? description : `${description}: ${choices.join(', ')}`;

const parserOf = ({ parse, choices }: Argument | Option) => parse ?? (choices && oneOf(choices));

const collect =
  (parse: (text: string) => unknown) =>
  (text: string, previous: unknown): unknown[] => [
    ...((previous as unknown[] | undefined) ?? []),
    parse(text),
  ];
