import type { Command } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { writeOrders } from '../output/orders.ts';
import { placeOf } from '../profiles/resolve.ts';

export const orders: Command<object> = {
  name: 'orders',
  summary: "show the store's orders",
  examples: ['pets orders', "pets orders --json | jq '.[0]'"],
  async run(_options, runtime) {
    const { console } = runtime;
    const connection = connectionFor(runtime);
    const { value } = await withClient(runtime, connection, (client) => client.call('listOrders', {}));
    await writeOrders(console, value);
    if (console.isTerminal && !console.json && Array.isArray(value) && value.length === 0) {
      console.notice(`there are no orders at ${placeOf(connection)}`);
    }
    return exitCodes.ok;
  },
};
