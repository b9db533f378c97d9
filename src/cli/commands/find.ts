import { listAnimals } from '../animals/list-animals.ts';
import { type NameFilter, parseNameFilter } from '../animals/name-filter.ts';
import {
  filterOptions,
  listOptions,
  resultLimitOption,
  type Selection,
  yesOption,
} from '../animals/selection.ts';
import { listFormats } from '../output/format.ts';
import type { Command } from '../program/command.ts';

type Options = Selection & { text: NameFilter };

export const find: Command<Options> = {
  name: 'find',
  summary: 'find animals by name',
  examples: [
    'pets find rex',
    'pets find rex --category 3 --status available',
    "pets find '/^(rex|max)$/i' --sort name",
  ],
  arguments: [
    {
      name: '<text>',
      description: 'part of the name, ignoring case and accents, or /regex/',
      parse: parseNameFilter,
    },
  ],
  options: [...filterOptions, ...listOptions, resultLimitOption, yesOption],
  prints: listFormats,
  run: ({ text, ...selection }, context) => listAnimals({ ...selection, name: text }, context),
};
