import { connectionFor, targetLabel, withClient } from '../connection/connect.ts';
import { writeOrders } from '../output/orders.ts';
import type { Command } from '../program/command.ts';

export const orders: Command<object> = {
  name: 'orders',
  summary: "list the store's orders",
  examples: ['pets orders', "pets orders --json | jq '.[0]'"],
  prints: ['rows', 'json'],
  async run(_options, context) {
    const { console } = context;
    const connection = connectionFor(context);
    const { value } = await withClient(context, connection, (client) => client.call('listOrders', {}));
    await writeOrders(console, value);
    if (console.isTerminal && !console.json && Array.isArray(value) && value.length === 0) {
      console.notice(`no orders at ${targetLabel(connection)}`);
    }
  },
};
