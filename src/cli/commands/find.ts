import { listAnimals } from '../animals/list-animals.ts';
import {
  filterOptions,
  limitOption,
  listOptions,
  parseNameText,
  type Selection,
} from '../animals/selection.ts';
import type { Command } from '../program/command.ts';
import { allOutputOptions } from '../program/declare.ts';

export const find: Command<Selection & { text: string }> = {
  name: 'find',
  summary: 'find animals by name',
  examples: ['pets find rex', 'pets find rex --category 3 --status available'],
  arguments: [
    { name: '<text>', description: 'part of the name; case and accents do not matter', parse: parseNameText },
  ],
  extraHint: 'put quotes around a text with spaces: pets find "Lady Bella"',
  options: [...filterOptions, ...listOptions, limitOption('all')],
  prints: 'rows',
  outputOptions: allOutputOptions,
  run({ text, ...selection }, context) {
    if (/[*?]|^\/.*\/$/.test(text))
      context.console.notice(
        `find searches for the text ${text} as it is; patterns such as rex* are not supported`,
      );
    return listAnimals({ ...selection, name: text }, context);
  },
};
