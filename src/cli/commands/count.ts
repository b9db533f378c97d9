import { pageSize } from '../../contract/operations.ts';
import type { CountField } from '../animals/counter.ts';
import { listFooter } from '../animals/footer.ts';
import { filterOptions, nameOption, type Selection, yesOption } from '../animals/selection.ts';
import { connectionFor, withClient } from '../connection/connect.ts';
import { listFormats } from '../output/format.ts';
import type { Command } from '../program/command.ts';

const groupings = {
  status: ['status'],
  category: ['categoryId'],
  'status,category': ['status', 'categoryId'],
  'category,status': ['categoryId', 'status'],
} as const satisfies Record<string, readonly CountField[]>;

type Options = Selection & { by: keyof typeof groupings };

export const countCommand: Command<Options> = {
  name: 'count',
  summary: 'count animals by status or category',
  examples: [
    'pets count',
    'pets count --by status,category',
    'pets count --by category --status available --csv > available.csv',
  ],
  options: [
    { flags: '--by <fields>', description: 'count by', choices: Object.keys(groupings), default: 'status' },
    ...filterOptions,
    nameOption,
    yesOption,
  ],
  prints: listFormats,
  async run({ by, ...selection }, context) {
    const connection = connectionFor(context);
    const { createCounter } = await import('../animals/counter.ts');
    const { readAll } = await import('../animals/read-all.ts');
    const { writeCounts } = await import('../animals/write-counts.ts');
    const counter = createCounter(groupings[by]);
    await withClient(context, connection, async (client) => {
      const plan = { selection, size: pageSize.max, enough: Number.POSITIVE_INFINITY };
      const reading = await readAll(context, client, plan, counter.add);
      await writeCounts(context.console, counter.result(), groupings[by]);
      const listed = { shown: reading.found, verb: 'counted', ...reading } as const;
      const footer = listFooter(context, connection, listed, selection);
      if (footer !== undefined) context.console.notice(footer);
    });
    return undefined;
  },
};
