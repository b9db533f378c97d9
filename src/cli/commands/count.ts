import { stringifyJson } from '../../contract/json.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { petColumn } from '../animals/pet-view.ts';
import { filterOptions, parseNameText, readPages, type Selection } from '../animals/selection.ts';
import { connectionFor, withClient } from '../connection/connect.ts';
import { sortByField } from '../core/sort.ts';
import { ArgumentError, cellText, fieldAt } from '../core/values.ts';
import { printRows } from '../output/printer.ts';
import { type Command, option } from '../program/command.ts';
import { footerOf } from './list.ts';

type CountField = 'status' | 'categoryId';

/** The number of animals that have these values. A value is null if the animals do not have the field. */
type Count = { status?: unknown; categoryId?: unknown; animals: number; names: Set<string> };

/** How many names of animals a table shows for a category, so that people recognize the category. */
const MAX_NAMES = 4;

const groupings = {
  status: ['status'],
  category: ['categoryId'],
  'status,category': ['status', 'categoryId'],
  'category,status': ['categoryId', 'status'],
} as const satisfies Record<string, readonly CountField[]>;

type Options = Selection & { by: keyof typeof groupings };

function parseGrouping(text: string): string {
  if (Object.hasOwn(groupings, text)) return text;
  throw new ArgumentError('must be status, category, or both separated by a comma');
}

export const countCommand: Command<Options> = {
  name: 'count',
  summary: 'count animals by status or category',
  examples: [
    'pets count',
    'pets count --by category  # shows some animals of each',
    'pets count --by status,category',
    'pets count --by category --status available --csv > available.csv',
    "pets count --status available --json | jq 'map(.animals) | add // 0'",
  ],
  extraHint: 'for example: pets count --by category; only some: pets count --status sold --category 3',
  options: [
    option('--by <fields>', 'status, category, or both separated by a comma', parseGrouping).default(
      'status',
    ),
    ...filterOptions,
    option('--name <text>', 'part of the name; case and accents do not matter', parseNameText),
  ],
  prints: 'rows',
  outputOptions: ['csv', 'excel', 'output'],
  async run({ by, ...selection }, context) {
    const fields = groupings[by];
    const counts = new Map<string, Count>();
    const onResults = (pets: readonly ReceivedPet[]) => {
      for (const pet of pets) {
        // A service may send a category as text. The number 1 and the text "1" are the same category.
        const key = fields.map((field) => cellText(pet[field])).join('\0');
        const values = Object.fromEntries(fields.map((field) => [field, fieldAt(pet, field) ?? null]));
        const count: Count = counts.get(key) ?? { ...values, animals: 0, names: new Set() };
        counts.set(key, count);
        count.animals++;
        if (count.names.size < MAX_NAMES) count.names.add(pet.name);
      }
    };
    const connection = connectionFor(context);
    const options = { enough: Number.POSITIVE_INFINITY, onResults, showStatus: context.console.showStatus };
    const reading = await withClient(context, connection, (client) => readPages(client, selection, options));
    // Sorted by the first field, then by the second one. Counts of animals without a field come last.
    const sorted = fields.reduceRight<readonly Count[]>(
      (rows, field) => sortByField(rows, { field, descending: false }),
      [...counts.values()],
    );
    const view = {
      columns: [
        ...fields.map(petColumn<Count>),
        { name: 'animals', value: ({ animals }: Count) => animals },
        ...(fields[0] === 'categoryId' ? [{ name: 'names', value: someNames, only: 'table' as const }] : []),
      ],
      json: ({ names: _, ...count }: Count) => stringifyJson(count),
    };
    const footer = footerOf(context, connection, selection, { ...reading, shown: reading.found });
    await printRows(context.console, view, sorted, footer);
  },
};

const someNames = ({ names, animals }: Count): string =>
  [...names].join(', ') + (animals > names.size ? ' …' : '');
