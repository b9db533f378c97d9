import { type Command as Commander, Help } from 'commander';
import type { Command } from './command.ts';

/** The width of help, whatever the terminal. The build stores the pages. */
const COLUMNS = 80;

/** Wraps a text to the width of help. */
export const wrapText = (text: string): string => helper.boxWrap(text, COLUMNS);

/** Commander's help, for a terminal of 80 columns. */
export const helper = Object.assign(new Help(), {
  helpWidth: COLUMNS,
  // The global options have a page of their own, and so have the groups of the options of pets serve.
  visibleOptions: ({ parent, options }: Commander) =>
    parent ? options.filter(({ helpGroupHeading }) => helpGroupHeading === undefined) : [],
  // The descriptions name the choices.
  optionDescription({ description, defaultValue }: Commander['options'][number]): string {
    const isShown = defaultValue !== undefined && typeof defaultValue !== 'boolean';
    return isShown ? `${description} (default: ${defaultValue})` : description;
  },
  argumentDescription: ({ description }: Commander['registeredArguments'][number]) => description,
  subcommandTerm: (command: Commander) =>
    `${command.name()} ${command
      .usage()
      .replace(/\[.*\]/, '')
      .trim()}`,
});

export type Item = readonly [term: string, description: string];

/** A title above terms with their descriptions. */
export function section(title: string, items: readonly Item[]): string {
  const width = Math.max(...items.map(([term]) => term.length));
  const lines = items.map(([term, description]) => helper.formatItem(term, width, description, helper));
  return `${title}:\n${lines.join('\n')}\n`;
}

/** The end of a command's page: examples, which stay on one line, so that they can be copied, and notes. */
export function examplesAndNotes({ examples, notes }: Command): string {
  const more = 'Options of every command, such as --profile and --json: pets help global';
  const lines = examples.map((line) => `\n  ${line}`).join('');
  return `\n${more}\n\nExamples:${lines}${notes === undefined ? '' : `\n\n${wrapText(notes)}`}`;
}
