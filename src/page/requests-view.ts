import type { RequestSummary } from '../server/tools/log-entry.ts';
import { byId, element, setChildren, table, tableRow } from './element.ts';
import { count, durationText, localTime, requestKind, shortOutcome, visibleLine } from './format.ts';
import type { PageContext, View } from './page-context.ts';
import { createDetails } from './request-details.ts';
import { createFilterForm, type FilterActions } from './request-filter.ts';
import { MAX_ROWS, matchesFilter, type RequestLog } from './request-log.ts';

/** The list of requests, its filters, and the details of one request. */
export function createRequestsView(context: PageContext, actions: FilterActions) {
  const details = createDetails(context, byId('details'));
  const rows = new WeakMap<RequestSummary, HTMLTableRowElement>();
  const body = element('tbody');
  const empty = element('p', { class: 'empty' });
  const more = element('p', { class: 'note' });
  const summary = element('p', { class: 'summary' });
  const filter = createFilterForm(() => render(), actions);
  let log: RequestLog | undefined;

  byId('requests-title').after(summary);
  byId('requests-list').append(
    filter.element,
    table(
      'Requests, the newest first',
      ['Time', 'Method', 'Path', 'Status', 'Result', 'Key', 'Duration'],
      body,
    ),
    empty,
    more,
  );

  function rowOf(request: RequestSummary): HTMLTableRowElement {
    let row = rows.get(request);
    if (row === undefined) {
      row = createRow(request, (button) => details.open(request, button));
      rows.set(request, row);
    }
    return row;
  }

  function render(): void {
    if (log === undefined) return;
    const { requests, hasGap } = log;
    filter.offer(requests);
    const chosen = filter.value();
    const matching = requests.filter((request) => matchesFilter(request, chosen));
    setChildren(body, matching.slice(0, MAX_ROWS).map(rowOf));
    const gap = hasGap ? ' · more arrive than this page shows' : '';
    summary.textContent = summarize(matching, requests.length) + gap;
    empty.hidden = matching.length > 0;
    empty.textContent =
      requests.length === 0
        ? 'No requests yet. They appear here as soon as a client sends one.'
        : 'No request matches the filters.';
    more.textContent = matching.length > MAX_ROWS ? `The latest ${MAX_ROWS} are shown.` : '';
  }

  return {
    show() {
      render();
    },
    update(changed: RequestLog) {
      log = changed;
      render();
    },
  } satisfies View & { update(log: RequestLog): void };
}

function createRow(request: RequestSummary, open: (button: HTMLElement) => void): HTMLTableRowElement {
  const { time, method, url, status, outcome, code, keyName, milliseconds } = request;
  const button = element(
    'button',
    { type: 'button', class: 'link', 'aria-controls': 'details', 'aria-expanded': 'false' },
    element('bdi', {}, visibleLine(url)),
  );
  const row = tableRow(
    Object.entries({
      Time: element('time', { datetime: time, title: time }, localTime(time)),
      Method: visibleLine(method),
      Path: button,
      Status: element('span', { class: 'status' }, String(status)),
      Result: element(
        'span',
        {},
        element('span', { class: `outcome ${outcome}` }, shortOutcome(request, new Date())),
        code !== undefined && /counted$/.test(outcome) && element('span', { class: 'code' }, ` ${code}`),
      ),
      Key: keyName === undefined ? '–' : element('bdi', {}, visibleLine(keyName)),
      Duration: durationText(milliseconds),
    }),
  );
  row.classList.add(requestKind(request));
  // The button is for the keyboard; with a mouse, the whole row can be clicked.
  row.addEventListener('click', () => {
    if (getSelection()?.isCollapsed !== false) open(button);
  });
  return row;
}

function summarize(matching: readonly RequestSummary[], total: number): string {
  const kinds = matching.map(requestKind);
  const parts = [
    matching.length < total ? `${matching.length} of ${count(total, 'request')}` : count(total, 'request'),
  ];
  for (const [kind, text] of Object.entries(kindTexts)) {
    const found = kinds.filter((each) => each === kind).length;
    if (found > 0) parts.push(`${found} ${text}`);
  }
  return parts.join(' · ');
}

const kindTexts = { refused: 'refused with 429', rejected: 'rejected with 4xx', failed: 'failed with 5xx' };
