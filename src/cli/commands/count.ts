import { stringifyJson } from '../../contract/json.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { footerOf } from '../animals/list-animals.ts';
import { petColumn } from '../animals/pet-view.ts';
import { readAnimals } from '../animals/reading.ts';
import { filterOptions, parseNameText, type Selection } from '../animals/selection.ts';
import { connectionFor } from '../connection/connect.ts';
import { cellText, fieldAt, sortByField } from '../core/fields.ts';
import { ArgumentError } from '../core/parsers.ts';
import { type Column, print } from '../output/printer.ts';
import type { Command } from '../program/command.ts';

type CountField = 'status' | 'categoryId';

/** The number of animals that have these values. A value is null if the animals do not have the field. */
type Count = { status?: unknown; categoryId?: unknown; animals: number };

/** A count with the first few names of its animals. */
type NamedCount = { count: Count; names: Set<string> };

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
    'pets count --by category               shows names of each',
    'pets count --by status,category',
    'pets count --by category --status available --csv > available.csv',
    "pets count --status available --json | jq 'map(.animals) | add // 0'",
  ],
  extraHint: 'for example: pets count --by category; for one category: pets count --category 3',
  options: [
    {
      flags: '--by <fields>',
      description: 'count by status, category, or both separated by a comma',
      choices: Object.keys(groupings),
      parse: parseGrouping,
      default: 'status',
    },
    ...filterOptions,
    {
      flags: '--name <text>',
      description: 'only animals with this text in their name; case and accents do not matter',
      parse: parseNameText,
    },
  ],
  prints: 'rows',
  outputOptions: ['csv', 'excel', 'output'],
  async run({ by, ...selection }, context) {
    const connection = connectionFor(context);
    const fields = groupings[by];
    const counter = createCounter(fields);
    const reading = await readAnimals(context, connection, selection, {
      enough: Number.POSITIVE_INFINITY,
      onResults: counter.add,
    });
    const counts = counter.result();
    const footer = footerOf(context, connection, selection, { ...reading, shown: reading.found });
    const view = {
      columns: columnsOf(fields),
      json: ({ count }: NamedCount) => stringifyJson(count),
    };
    await print(context.console, view, counts, footer);
    return undefined;
  },
};

function createCounter(fields: readonly CountField[]) {
  const counts = new Map<string, NamedCount>();
  return {
    add(pets: readonly ReceivedPet[]): void {
      for (const pet of pets) {
        // A service may send a category as text. The number 1 and the text "1" are the same category.
        const key = fields.map((field) => cellText(pet[field])).join('\0');
        const values = fields.map((field) => [field, fieldAt(pet, field) ?? null]);
        const found = counts.get(key) ?? {
          count: { ...Object.fromEntries(values), animals: 0 },
          names: new Set(),
        };
        found.count.animals++;
        if (found.names.size < NAMES) found.names.add(pet.name);
        counts.set(key, found);
      }
    },
    /** The counts, sorted by the first field, then by the second one. Counts of animals without a field come last. */
    result: (): NamedCount[] =>
      fields.reduceRight<NamedCount[]>(
        (sorted, field) => sortByField(sorted, { field: `count.${field}`, descending: false }),
        [...counts.values()],
      ),
  };
}

/** How many names of each category a terminal shows, so that people recognize it. */
const NAMES = 4;
function columnsOf(fields: readonly CountField[]): Column<NamedCount>[] {
  const names = ({ count, names }: NamedCount) =>
    [...names].join(', ') + (count.animals > names.size ? ' …' : '');
  return [
    ...fields.map((field): Column<NamedCount> => {
      const column = petColumn<Count>(field);
      return { ...column, value: ({ count }) => column.value(count) };
    }),
    { name: 'animals', value: ({ count }) => count.animals },
    ...(fields[0] === 'categoryId' ? [{ name: 'names', value: names, only: 'table' as const }] : []),
  ];
}
