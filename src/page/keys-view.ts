import { bar } from './bars.ts';
import { byId, element, scrollable, setChildren, tableRow } from './element.ts';
import { count, formatNumber, formatUntil, formatWait, visibleLine } from './format.ts';
import type { PageContext, View } from './page-context.ts';
import { repeat } from './polling.ts';
import { createProblem } from './problem.ts';

const REFRESH_MS = 2_000;
/** The share of a limit from which its gauge shows a warning. */
const HIGH = 0.8;

type Gauge = { limit: number; used: number; endsAt: string };
type Key = { name: string; plan: string; minute: Gauge; day: Gauge; bannedUntil?: string };

/** The API keys, with gauges for both windows of their limits, and their bans. */
export function createKeysView(context: PageContext): View {
  const problem = createProblem();
  const total = element('p', { class: 'summary' });
  const body = element('tbody');
  byId('keys-title').after(
    total,
    problem.element,
    scrollable('API keys', ['Name', 'Plan', 'Minute', 'Day', 'Ban'], body),
  );

  const refresh = (signal: AbortSignal) =>
    problem.during(async () => {
      const response = (await context.get('keys', signal)) as { keys: Key[]; total: number };
      const { keys } = response;
      const shown = keys.length < response.total ? `, of which the first ${keys.length} are shown` : '';
      total.textContent = count(response.total, 'key') + shown;
      setChildren(body, keys.map(createKeyRow));
    });

  return {
    show(signal) {
      repeat(REFRESH_MS, signal, () => refresh(signal));
    },
  };
}

function createKeyRow({ name, plan, minute, day, bannedUntil }: Key): HTMLElement {
  const now = new Date();
  return tableRow(
    Object.entries({
      Name: element('bdi', {}, visibleLine(name)),
      Plan: visibleLine(plan),
      Minute: gauge(minute, 'minute', now),
      Day: gauge(day, 'day', now),
      Ban:
        bannedUntil === undefined
          ? 'not banned'
          : element(
              'span',
              { class: 'outcome banned' },
              `until ${formatUntil(bannedUntil, now)}, ${formatWait(Date.parse(bannedUntil) - now.getTime())} left`,
            ),
    }),
  );
}

function gauge({ limit, used, endsAt }: Gauge, unit: string, now: Date): HTMLElement {
  const share = limit === 0 ? 1 : used / limit;
  return element(
    'div',
    { class: 'gauge' },
    bar(share, share >= HIGH),
    element('span', {}, `${formatNumber(used)} of ${formatNumber(limit)} per ${unit}`),
    element('span', { class: 'note' }, `, ends in ${formatWait(Date.parse(endsAt) - now.getTime())}`),
  );
}
