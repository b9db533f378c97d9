import { footerLabel, targetLabel } from '../connection/connect.ts';
import type { Fields } from '../fields/field.ts';
import type { Console } from '../output/console.ts';
import { formatCount } from '../output/format-count.ts';
import { createTimeFormatter } from '../output/time.ts';
import type { Zone } from '../output/zone.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import type { OrderOptions } from './options.ts';
import { knownField, requireField, requireFields, type Selected, selectOrders } from './select.ts';
import { sumField } from './sum.ts';
import { zonedInstantIn } from './time.ts';
import type { TimeWindow } from './time-window.ts';
import { writeOrderList, writeOtherOrders, writeSum } from './write-orders.ts';

/** The options of `pets orders`, and the window that they mean in this time zone. */
type Query = { options: OrderOptions; window: TimeWindow; zone: Zone };

/**
 * Prints the orders that the options select, or their sum.
 *
 * @param value the body of the response, which may be any JSON
 * @throws CliError if the options cannot be used with these orders
 */
export async function printSelected(
  context: CommandContext,
  connection: Connection,
  value: unknown,
  { options, window, zone }: Query,
): Promise<void> {
  const { console } = context;
  const label = console.isTable ? footerLabel(context, connection) : '';
  const all = requireFields(value, options, console.format);
  const showText = createTextDisplay(context);
  if (all === undefined) return writeOtherOrders(console, value, showText);
  const selected = selectOrders(all, options, window, {
    zone,
    notice: console.notice,
    formatTime: createTimeFormatter(console.timeZone),
  });
  if (options.sum !== undefined) await printSum(console, options.sum, selected, all, label);
  else {
    const columns = options.columns?.map((name) => knownField(all, name, console.notice));
    const footer = describeSelected(selected, all, label);
    await writeOrderList(console, selected.orders, { columns, all, footer, showText });
  }
  if (console.isTerminal && !console.json && selected.orders.length === 0)
    console.notice(describeEmpty(selected, all, targetLabel(connection)));
}

/** On a terminal, times that have a zone are shown in the time zone of the user. */
function createTextDisplay({ console }: CommandContext): (text: string) => string {
  if (!console.isTerminal) return (text) => text;
  const format = createTimeFormatter(console.localTimeZone);
  return (text) => {
    const instant = zonedInstantIn(text);
    return instant === undefined ? text : format(instant);
  };
}

async function printSum(
  console: Console,
  name: string,
  selected: Selected,
  all: readonly Fields[],
  label: string,
): Promise<void> {
  const field = requireField(all, name, '--sum');
  const { sum, orders } = sumField(selected.orders, field, all);
  await writeSum(console, { field, orders, sum });
  const without = selected.orders.length - orders;
  if (without > 0) console.notice(`${formatCount(without, 'order')} without ${field}: not in the sum`);
  if (console.isTerminal && console.format === 'rows' && selected.orders.length > 0)
    console.notice(describeSelected(selected, all, label));
}

/** The number of selected orders, the service, and the conditions, such as `3 of 20 orders: status=delivered`. */
function describeSelected({ orders, conditions }: Selected, all: readonly Fields[], label: string): string {
  const total = formatCount(all.length, 'order') + label;
  return conditions.length === 0 ? total : `${orders.length} of ${total}: ${conditions.join(', ')}`;
}

function describeEmpty(
  { conditions, alternatives }: Selected,
  all: readonly Fields[],
  target: string,
): string {
  if (all.length === 0) return `no orders at ${target}`;
  const rest = alternatives === undefined ? '' : `. ${alternatives}`;
  return `none of the ${formatCount(all.length, 'order')} at ${target} matches ${conditions.join(', ')}${rest}`;
}
