import { connectionFor, withClient } from '../connection/connect.ts';
import { usageError } from '../core/errors.ts';
import { parseField, parseFields } from '../fields/parse-fields.ts';
import { type OrderOptions, parseCondition, parseFieldOrder, parseTimeArgument } from '../orders/options.ts';
import { listFormats } from '../output/format.ts';
import { createZone } from '../output/zone.ts';
import type { Command } from '../program/command.ts';

export const orders: Command<OrderOptions> = {
  name: 'orders',
  summary: "list, filter and add up the store's orders",
  examples: [
    'pets orders --since yesterday --until today',
    'pets orders --where status=placed --sort amount:desc',
    'pets orders --since 7d --sum amount',
  ],
  options: [
    {
      flags: '--where <field=value>',
      description:
        'only orders with this value (repeatable); a dot names a nested field, as in customer.name=Ada',
      parse: parseCondition,
      repeatable: true,
    },
    {
      flags: '--since <time>',
      description:
        'only orders since then: yesterday, today, 7d (7 days ago), 2026-11-20 or 2026-11-20T14:30',
      parse: parseTimeArgument,
    },
    { flags: '--until <time>', description: 'only orders before then', parse: parseTimeArgument },
    {
      flags: '--date-field <field>',
      description: 'field for --since and --until, if several fields contain times',
      parse: parseField,
    },
    {
      flags: '--sort <field>',
      description: 'sort by this field; <field>:desc for the reverse order',
      parse: parseFieldOrder,
    },
    {
      flags: '--columns <fields>',
      description: 'only these fields, separated by commas',
      parse: parseFields,
    },
    {
      flags: '--sum <field>',
      description: 'print the exact sum of this field instead of the orders',
      parse: parseField,
    },
  ],
  prints: listFormats,
  check({ since, until, dateField, sort, columns, sum }) {
    if (dateField !== undefined && since === undefined && until === undefined)
      throw usageError('--date-field can only be used with --since or --until');
    const unused = sort ? '--sort' : columns && '--columns';
    if (sum !== undefined && unused)
      throw usageError(`--sum and ${unused} cannot be combined`, 'use only one');
  },
  async run(options, context) {
    const { timeWindowOf } = await import('../orders/time-window.ts');
    const { printSelected } = await import('../orders/print-selected.ts');
    const zone = createZone(context.console.localTimeZone);
    const window = timeWindowOf(options, context.clock.now(), zone);
    const connection = connectionFor(context);
    const { value } = await withClient(context, connection, (client) => client.call('listOrders', {}));
    await printSelected(context, connection, value, { options, window, zone });
  },
};
