import type { RequestSummary } from '../server/tools/log-entry.ts';
import { element } from './element.ts';
import { visibleLine } from './format.ts';
import { noFilter, type RequestFilter } from './request-log.ts';

type Choices = readonly (readonly [value: string, text: string])[];

/** How many methods and keys the filters offer. A client can send any method. */
const MAX_CHOICES = 50;

/** A field with its label, for a form. */
export const labelled = (label: string, field: HTMLElement, className = 'field'): HTMLElement =>
  element('label', { class: className }, element('span', {}, label), field);

export const select = (name: string, choices: Choices): HTMLSelectElement =>
  element('select', { name }, ...choices.map(([value, text]) => element('option', { value }, text)));

/** What the other buttons of the form do. */
export type FilterActions = { clear(): void; pause(isPaused: boolean): void };

/** The form above the list of requests. Calls `onChange` when the filter changes. */
export function createFilterForm(onChange: () => void, { clear, pause }: FilterActions) {
  const fields = {
    text: element('input', {
      type: 'search',
      name: 'text',
      placeholder: 'Path, request id or error code',
      autocomplete: 'off',
      spellcheck: 'false',
    }),
    status: select('status', [
      ['', 'All'],
      ['ok', 'Successful'],
      ['refused', '429'],
      ['rejected', 'Other 4xx'],
      ['failed', '5xx'],
    ]),
    method: select('method', [['', 'All']]),
    outcome: select('outcome', [
      ['', 'All'],
      ['counted', 'Counted'],
      ['replayed', 'Replayed'],
      ['rate_limited', 'Refused'],
      ['banned', 'Banned'],
      ['injected_fault', 'Injected fault'],
      ['mocked', 'Mocked'],
      ['not_counted', 'Not counted'],
    ]),
    key: select('key', [['', 'All']]),
  };
  const form = element(
    'form',
    { class: 'toolbar', role: 'search', 'aria-label': 'Filter the requests' },
    labelled('Search', fields.text, 'field wide'),
    labelled('Status', fields.status),
    labelled('Method', fields.method),
    labelled('Result', fields.outcome),
    labelled('Key', fields.key),
    element(
      'div',
      { class: 'buttons' },
      element('button', { type: 'reset' }, 'Show all'),
      element('button', { type: 'button', click: clear }, 'Clear list'),
      element('button', { type: 'button', 'aria-pressed': 'false', click: togglePause }, 'Pause'),
    ),
  );
  function togglePause({ currentTarget }: Event): void {
    const button = currentTarget as HTMLElement;
    const isPaused = button.getAttribute('aria-pressed') === 'false';
    button.setAttribute('aria-pressed', String(isPaused));
    pause(isPaused);
  }
  form.addEventListener('input', onChange);
  form.addEventListener('submit', (event) => event.preventDefault());
  // The fields are reset after this event.
  form.addEventListener('reset', () => setTimeout(onChange));

  return {
    element: form,
    value: (): RequestFilter => {
      const entries = Object.entries(fields).map(([name, field]) => [name, field.value]);
      return { ...noFilter, ...Object.fromEntries(entries) };
    },
    /** Offers the methods and the names of keys that occur in requests. */
    offer(requests: readonly RequestSummary[]): void {
      for (const [field, name] of [
        [fields.method, 'method'],
        [fields.key, 'keyName'],
      ] as const) {
        const offered = new Set(Array.from(field.options, ({ value }) => value));
        for (const { [name]: value } of requests) {
          if (value === undefined || offered.has(value) || offered.size >= MAX_CHOICES) continue;
          offered.add(value);
          field.append(element('option', { value }, visibleLine(value)));
        }
      }
    },
  };
}
