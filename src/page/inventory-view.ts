import { barList } from './bars.ts';
import { byId, element, scrollable, setChildren, tableRow } from './element.ts';
import { count, formatNumber, visibleLine } from './format.ts';
import {
  type Animal,
  type CountsResponse,
  type InventoryFilter,
  readPage,
  sumCounts,
} from './inventory-data.ts';
import type { PageContext, View } from './page-context.ts';
import { repeat, sleep } from './polling.ts';
import { createProblem } from './problem.ts';
import { labelled, select } from './request-filter.ts';
import { valueText } from './value-text.ts';

const REFRESH_MS = 5_000;
const TYPING_MS = 250;

/** The animals in a table with pages and filters, and how many there are by status and category. */
export function createInventoryView(context: PageContext): View {
  const problem = createProblem();
  const total = element('p', { class: 'summary' });
  const charts = element('div', { class: 'charts' });
  const body = element('tbody');
  const note = element('p', { class: 'note', role: 'status' });
  const fields = {
    name: element('input', {
      type: 'search',
      name: 'name',
      autocomplete: 'off',
      placeholder: 'Part of a name',
    }),
    status: select('status', [
      ['', 'All'],
      ['available', 'available'],
      ['pending', 'pending'],
      ['sold', 'sold'],
    ]),
    category: element('input', {
      type: 'search',
      name: 'category',
      autocomplete: 'off',
      inputmode: 'numeric',
    }),
  };
  const previous = element('button', { type: 'button', click: () => turn(-1) }, 'Previous');
  const next = element('button', { type: 'button', click: () => turn(1) }, 'Next');
  const form = element(
    'form',
    { class: 'toolbar', role: 'search', 'aria-label': 'Filter the animals', input: () => reload(TYPING_MS) },
    labelled('Name', fields.name, 'field wide'),
    labelled('Status', fields.status),
    labelled('Category', fields.category),
    element('div', { class: 'buttons' }, element('button', { type: 'reset' }, 'Show all')),
  );
  form.addEventListener('submit', (event) => event.preventDefault());
  form.addEventListener('reset', () => setTimeout(reload));
  byId('inventory-title').after(total);
  byId('inventory-view').append(
    charts,
    form,
    problem.element,
    scrollable('Animals', ['Id', 'Name', 'Category', 'Status'], body),
    note,
    element('div', { class: 'buttons' }, previous, next),
  );

  let viewing = AbortSignal.abort();
  let loading = new AbortController();
  /** For each page up to the one that is shown, the id after which it begins; undefined for the first page. */
  let starts: (string | undefined)[] = [undefined];
  /** The id after which the next page begins; undefined if there is none. */
  let following: string | undefined;
  let counted = -1;

  const filter = (): InventoryFilter => ({
    name: fields.name.value,
    status: fields.status.value,
    category: fields.category.value.trim(),
  });

  function reload(delay = 0): void {
    starts = [undefined];
    load(delay);
  }

  function turn(step: 1 | -1): void {
    if (step === 1 && following !== undefined) starts.push(following);
    else if (step === -1 && starts.length > 1) starts.pop();
    else return;
    load();
  }

  async function load(delay = 0): Promise<void> {
    loading.abort();
    loading = new AbortController();
    const signal = AbortSignal.any([viewing, loading.signal]);
    await sleep(delay, signal);
    if (signal.aborted) return;
    note.textContent = '';
    await problem.during(async () => {
      const page = await readPage(context, filter(), starts.at(-1), signal, (read) => {
        note.textContent = `Searching: ${count(read, 'animal')} read…`;
      });
      following = page.next;
      setChildren(body, page.animals.map(createAnimalRow));
      note.textContent = page.animals.length === 0 ? 'No animal matches.' : '';
      // A disabled button would lose the focus of the keyboard.
      previous.setAttribute('aria-disabled', String(starts.length === 1));
      next.setAttribute('aria-disabled', String(following === undefined));
    });
  }

  async function refresh(): Promise<void> {
    await problem.during(async () => {
      let counts: CountsResponse;
      do {
        counts = (await context.get('inventory/counts', viewing)) as CountsResponse;
        total.textContent = `${count(counts.animals, 'animal')}${counts.complete ? '' : ' counted so far…'}`;
      } while (!counts.complete);
      if (counts.animals === counted) return;
      showCounts(counts);
      if (counts.animals < counted) reload();
      else if (following === undefined && counted >= 0) load();
      counted = counts.animals;
    });
  }

  function showCounts({ counts }: CountsResponse): void {
    const { statuses, categories, others } = sumCounts(counts);
    const chooser = (field: HTMLInputElement | HTMLSelectElement) => (value: string) => {
      field.value = field.value === value ? '' : value;
      reload();
    };
    charts.replaceChildren(
      chart('By status', barList(statuses, chooser(fields.status))),
      chart(
        'By category',
        barList(categories, chooser(fields.category)),
        others > 0 ? `${formatNumber(others)} in other categories` : '',
      ),
    );
  }

  return {
    show(signal) {
      viewing = signal;
      load();
      repeat(REFRESH_MS, signal, refresh);
    },
    onRequests(requests) {
      if (requests.some(({ operation, status }) => operation === 'createPet' && status === 201)) refresh();
    },
  };
}

const chart = (title: string, list: HTMLElement, rest = ''): HTMLElement =>
  element('div', { class: 'card' }, element('h3', {}, title), list, element('p', { class: 'note' }, rest));

const createAnimalRow = ({ id, name, categoryId, status }: Animal): HTMLElement =>
  tableRow(
    Object.entries({
      Id: valueText(id),
      Name: element('bdi', {}, visibleLine(valueText(name))),
      Category: valueText(categoryId),
      Status: visibleLine(valueText(status ?? '–')),
    }),
  );
