import { byId, element, scrollable, tableRow } from './element.ts';
import { count, visibleLine } from './format.ts';
import type { PageContext, View } from './page-context.ts';
import { createProblem } from './problem.ts';
import { valueText } from './value-text.ts';

/** How many fields of the orders have a column. Orders can be any JSON. */
const MAX_COLUMNS = 8;

export function createOrdersView(context: PageContext): View {
  const problem = createProblem();
  const total = element('p', { class: 'summary' });
  const content = element('div');
  byId('orders-title').after(total, problem.element, content);
  return {
    async show(signal) {
      await problem.during(async () => {
        const response = (await context.get('inventory/orders', signal)) as {
          orders: unknown[];
          total: number;
        };
        const { orders } = response;
        const shown = orders.length < response.total ? `, of which the first ${orders.length} are shown` : '';
        total.textContent = count(response.total, 'order') + shown;
        content.replaceChildren(
          ...(orders.length > 0
            ? [orderTable(orders)]
            : [element('p', { class: 'empty' }, 'There are no orders.')]),
        );
      });
    },
  };
}

function orderTable(orders: readonly unknown[]): HTMLElement {
  const names = [...new Set(orders.slice(0, 100).flatMap((order) => Object.keys(fieldsOf(order))))];
  const columns = names.slice(0, MAX_COLUMNS);
  const rows = orders.map((order) => {
    const fields = fieldsOf(order);
    return tableRow(
      columns.map((name) => {
        const isPresent = Object.hasOwn(fields, name);
        return [name, element('bdi', {}, isPresent ? visibleLine(valueText(fields[name])) : '–')];
      }),
    );
  });
  return scrollable('Orders', columns.map(visibleLine), element('tbody', {}, ...rows));
}

const fieldsOf = (order: unknown): Readonly<Record<string, unknown>> =>
  typeof order === 'object' && order !== null && !Array.isArray(order)
    ? (order as Record<string, unknown>)
    : { value: order };
