import { listAnimals } from '../animals/list-animals.ts';
import {
  checkLimit,
  filterOptions,
  limitOption,
  listOptions,
  nameOption,
  type Selection,
  yesOption,
} from '../animals/selection.ts';
import { listFormats } from '../output/format.ts';
import type { Command } from '../program/command.ts';

export const list: Command<Selection> = {
  name: 'list',
  summary: 'list animals',
  examples: [
    'pets list --status available',
    'pets list --name rex --category 3',
    'pets list --sort name --columns name,status',
    'pets list --all --json | jq length',
    'pets list --all --output animals.csv',
  ],
  options: [
    ...filterOptions,
    nameOption,
    ...listOptions,
    limitOption,
    { flags: '--all', description: 'fetch all pages (implied by --name, --category and --sort)' },
    yesOption,
  ],
  prints: listFormats,
  check: checkLimit,
  run: listAnimals,
};
