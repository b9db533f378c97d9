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
    const footer = footerOf(context, connection, selection, { ...reading, shown: reading.found });
    await print(context.console, { columns: columnsOf(fields, counter.namesOf) }, counter.result(), footer);
    return undefined;
  },
};

/** How many names of each category a terminal shows, so that people recognize it. */
const NAMES = 4;

function createCounter(fields: readonly CountField[]) {
  const counts = new Map<string, Count>();
  const names = new Map<Count, Set<string>>();
  return {
    add(pets: readonly ReceivedPet[]): void {
      for (const pet of pets) {
        // A service may send a category as text. The number 1 and the text "1" are the same category.
        const key = fields.map((field) => cellText(pet[field])).join('\0');
        const values = fields.map((field) => [field, fieldAt(pet, field) ?? null]);
        const count: Count = counts.get(key) ?? { ...Object.fromEntries(values), animals: 0 };
        counts.set(key, count);
        count.animals++;
        const known = names.get(count) ?? new Set();
        if (known.size < NAMES) names.set(count, known.add(pet.name));
      }
    },
    /** The counts, sorted by the first field, then by the second one. Counts of animals without a field come last. */
    result: (): Count[] =>
      fields.reduceRight<Count[]>(
        (sorted, field) => sortByField(sorted, { field, descending: false }),
        [...counts.values()],
      ),
    /** The first few names of the animals of a count. */
    namesOf(count: Count): string {
      const known = names.get(count) ?? new Set();
      return [...known].join(', ') + (count.animals > known.size ? ' …' : '');
    },
  };
}

const columnsOf = (fields: readonly CountField[], namesOf: (count: Count) => string): Column<Count>[] => [
  ...fields.map(petColumn<Count>),
  { name: 'animals', value: ({ animals }) => animals },
  ...(fields[0] === 'categoryId' ? [{ name: 'names', value: namesOf, only: 'table' as const }] : []),
];
