import { listAnimals } from '../animals/list-animals.ts';
import { filterOptions, limitOption, listOptions, type Selection } from '../animals/selection.ts';
import type { Command } from '../program/command.ts';
import { allOutputOptions } from '../program/declare.ts';

export const list: Command<Selection> = {
  name: 'list',
  summary: 'list animals',
  examples: [
    'pets list --all --json | jq length',
    'pets list --status available',
    'pets list --category 3 --sort name --columns name,status',
    'pets list --all --output animals.csv',
  ],
  extraHint: 'to list only some animals: pets list --status sold; or by name: pets find rex',
  options: [
    { flags: '--all', description: 'list all animals', conflicts: ['limit'] },
    ...filterOptions,
    ...listOptions,
    limitOption('20; all with --category, several --status, --sort or --output'),
  ],
  prints: 'rows',
  outputOptions: allOutputOptions,
  run: listAnimals,
};
