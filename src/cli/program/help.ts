import { wrapText } from '../output/text.ts';
import type { Argument, Command, CommandGroup, Option } from './command.ts';
import { optionsOf } from './declare.ts';

/** The width of help, whatever the terminal. The build stores the pages. */
const COLUMNS = 80;
/** Longer terms get a line of their own, so that the descriptions have room. */
const MAX_TERM = 26;

/** Wraps a text to the width of help. Further lines are indented. */
export const wrap = (text: string, indent = 0): string => wrapText(text, COLUMNS, indent);

export type Item = readonly [term: string, description: string];

const widest = (items: readonly Item[]): number =>
  items.reduce((width, [{ length }]) => (length > MAX_TERM ? width : Math.max(width, length)), 0);

/** A title above terms with their descriptions. Empty without items. */
export function section(title: string, items: readonly Item[], termColumns = widest(items)): string {
  if (items.length === 0) return '';
  const margin = ' '.repeat(termColumns + 4);
  const lines = items.map(([term, description]) => {
    const [first = '', ...rest] = wrapText(description, COLUMNS - termColumns - 4).split('\n');
    const start =
      term.length > termColumns ? `  ${term}\n${margin}${first}` : `  ${term.padEnd(termColumns)}  ${first}`;
    return `${[start, ...rest.map((line) => margin + line)].join('\n')}\n`;
  });
  return `\n${title}:\n${lines.join('')}`;
}

/** A paragraph after an empty line. */
export const paragraph = (text: string): string => `\n${wrap(text)}\n`;

/** The usage line and the summary, with which every page of a command begins. */
export const heading = (usage: string, summary: string): string =>
  `Usage: pets ${usage}\n${paragraph(`${summary.slice(0, 1).toUpperCase()}${summary.slice(1)}.`)}`;

export const groupPage = ({ name, summary, commands }: CommandGroup): string =>
  [
    heading(`${name} <command> [options]`, summary),
    section('Commands', commands.map(commandItem)),
    examples(commands.flatMap((each) => each.examples.slice(0, 1))),
    paragraph(`Options of a command: pets help ${name} <command>`),
  ].join('');

/** The page of a command. Its options with a group are on a page for the group. */
export function commandPage(name: string, command: Command): string {
  const { arguments: args = [], notes } = command;
  const all = optionsOf(command);
  const groups = groupsOf(command);
  const shown = args.flatMap((each): Item[] => (usageName(each) ? [[usageName(each), describe(each)]] : []));
  const options = all.filter(({ group }) => group === undefined).map(optionItem);
  const more = [...groups].map(([group, flags]): Item => [`pets help ${name} ${group}`, flags.join(', ')]);
  const termColumns = widest([...shown, ...options]);
  return [
    heading(usageOf(all.length > 0 ? `${name} [options]` : name, command), command.summary),
    section('Arguments', shown, termColumns),
    section('Options', options, termColumns),
    section('More options', more),
    paragraph('Options of every command, such as --profile and --json: pets help global'),
    examples(command.examples),
    notes === undefined ? '' : paragraph(notes),
  ].join('');
}

/** The page of the options of a command that belong to a group. */
export function optionsPage(name: string, group: string, command: Command): string {
  const options = optionsOf(command).filter((option) => option.group === group);
  return `Usage: pets ${name} [options]\n${section(`Options for ${group}`, options.map(optionItem))}`;
}

/** The groups of a command's options, with the names of these options. */
export function groupsOf(command: Command): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const { group, flags } of optionsOf(command))
    if (group !== undefined) groups.set(group, [...(groups.get(group) ?? []), flags.split(' ')[0] ?? '']);
  return groups;
}

/** Commands stay on one line, so that they can be copied. */
const examples = (lines: readonly string[]): string =>
  `\nExamples:\n${lines.map((line) => `  ${line}\n`).join('')}`;

const usageName = ({ name, usage = name }: Argument): string => usage;

const usageOf = (name: string, entry: Command | CommandGroup): string =>
  'commands' in entry
    ? `${name} <command>`
    : [name, ...(entry.arguments ?? []).map(usageName)].join(' ').trimEnd();

export const commandItem = (entry: Command | CommandGroup): Item => [
  usageOf(entry.name, entry),
  entry.summary,
];

export const optionItem = (declared: Option): Item => [declared.flags, describe(declared)];

/** The description of an argument or option with its valid values and its default. */
export function describe({ description, choices, ...rest }: Argument | Option): string {
  // If an option has a parser of its own, its description already names the values.
  const isListed = choices !== undefined && rest.parse === undefined;
  const text = isListed
    ? `${description}: ${choices.join(', ').replace(/, ([^,]*)$/, ' or $1')}`
    : description;
  const usual = 'flags' in rest ? (rest.defaultText ?? rest.default) : undefined;
  return usual === undefined ? text : `${text} (default: ${usual})`;
}
