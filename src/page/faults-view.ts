import { decimalToNumber, tryParseJson } from '../contract/json.ts';
import type { FaultSettings } from '../server/faults/fault-settings.ts';
import { byId, element, scrollable, tableRow } from './element.ts';
import { readFaultForm, ruleExamples } from './fault-settings.ts';
import { visibleLine } from './format.ts';
import type { PageContext, View } from './page-context.ts';
import { repeat } from './polling.ts';
import { createProblem } from './problem.ts';
import { labelled } from './request-filter.ts';

const REFRESH_MS = 2_000;

type Rule = NonNullable<FaultSettings['rules']>[number];

/** The injected faults, and a form that replaces them. Calls `onSettings` whenever it has read them. */
export function createFaultsView(
  context: PageContext,
  onSettings: (areActive: boolean) => void,
): View & { refresh(signal: AbortSignal): Promise<void> } {
  const problem = createProblem();
  const current = element('div', { class: 'current' });
  const number = (name: string, max: number) =>
    element('input', {
      type: 'number',
      name,
      min: 0,
      max,
      step: 'any',
      inputmode: 'decimal',
      placeholder: '0',
    });
  const fields = {
    min: number('min', 600_000),
    max: number('max', 600_000),
    failRate: number('failRate', 100),
    rules: element('textarea', {
      name: 'rules',
      rows: 9,
      spellcheck: 'false',
      autocomplete: 'off',
      placeholder: '[]',
    }),
  };
  const form = element(
    'form',
    { class: 'faults', novalidate: true, submit: save },
    element(
      'div',
      { class: 'toolbar' },
      labelled('Shortest latency, ms', fields.min),
      labelled('Longest latency, ms', fields.max),
      labelled('Requests that fail, %', fields.failRate),
    ),
    labelled('Rules, as a JSON array', fields.rules, 'field wide'),
    element(
      'p',
      { class: 'examples' },
      'Examples: ',
      ...ruleExamples.map(({ title, rules }) =>
        element('button', { type: 'button', class: 'quiet', click: () => fill(rules) }, title),
      ),
    ),
    problem.element,
    element(
      'div',
      { class: 'buttons' },
      element('button', { class: 'primary' }, 'Set faults'),
      element('button', { type: 'button', click: clear }, 'Clear all faults'),
    ),
  );
  byId('faults-view').append(current, element('h3', {}, 'Change'), form);
  let isFormFilled = false;
  const fill = (rules: string) => {
    fields.rules.value = rules;
  };

  function showSettings(value: unknown): void {
    const settings = value as FaultSettings;
    const rules = settings.rules ?? [];
    const failRate = Number(decimalToNumber(settings.failRate ?? 0));
    onSettings(settings.latency !== undefined || failRate > 0 || rules.length > 0);
    current.replaceChildren(...describeSettings(settings, failRate));
    if (isFormFilled) return;
    isFormFilled = true;
    fields.min.value = String(settings.latency?.min ?? '');
    fields.max.value = String(settings.latency?.max ?? '');
    fields.failRate.value = failRate > 0 ? String(Number((failRate * 100).toPrecision(6))) : '';
    fields.rules.value = rules.length > 0 ? JSON.stringify(rules.map(withoutApplied), null, 2) : '';
  }

  async function save(event: Event): Promise<void> {
    event.preventDefault();
    const body = readFaultForm({
      min: fields.min.value,
      max: fields.max.value,
      failRate: fields.failRate.value,
      rules: fields.rules.value,
    });
    if (tryParseJson(fields.rules.value || '[]') === undefined)
      return problem.show('The rules are not valid JSON.');
    await problem.during(async () => {
      showSettings(await context.send('PUT', 'faults', { body }));
      context.announce('The faults are set');
    });
  }

  async function clear(): Promise<void> {
    await problem.during(async () => {
      isFormFilled = false;
      showSettings(await context.send('DELETE', 'faults'));
      context.announce('All faults are cleared');
    });
  }

  const refresh = (signal: AbortSignal) => context.get('faults', signal).then(showSettings, () => {});

  return {
    refresh,
    show(signal) {
      repeat(REFRESH_MS, signal, () => refresh(signal));
    },
  };
}

const withoutApplied = ({ applied: _applied, ...rule }: Rule) => rule;

function describeSettings({ latency, seed, rules = [] }: FaultSettings, failRate: number): HTMLElement[] {
  const parts: string[] = [];
  if (latency) {
    const { min, max } = latency;
    parts.push(`Responses are delayed by ${min === max ? min : `${min} to ${max}`} ms.`);
  }
  if (failRate > 0) {
    parts.push(`${Number((failRate * 100).toPrecision(3))} % of the requests fail (seed ${seed}).`);
  }
  if (parts.length === 0 && rules.length === 0) parts.push('No faults are injected.');
  const texts = parts.map((part) => element('p', {}, part));
  if (rules.length === 0) return texts;
  return [
    ...texts,
    scrollable(
      'The rules in force',
      ['Rule', 'Requests', 'Answer', 'Delay', 'Applied'],
      element('tbody', {}, ...rules.map(ruleRow)),
    ),
  ];
}

function ruleRow(
  { match, answer, times, retryAfter, latency, applied = 0 }: Rule,
  index: number,
): HTMLElement {
  const retry = retryAfter === undefined ? '' : `, Retry-After ${retryAfter} s`;
  const row = tableRow(
    Object.entries({
      Rule: String(index + 1),
      Requests: visibleLine([match?.method, match?.path].filter(Boolean).join(' ') || 'all'),
      Answer: answer === undefined ? 'as usual' : `${answer}${retry}`,
      Delay:
        latency === undefined
          ? '–'
          : `${latency.min === latency.max ? latency.min : `${latency.min} to ${latency.max}`} ms`,
      Applied: times === undefined ? `${applied} times` : `${applied} of ${times} times`,
    }),
  );
  row.classList.toggle('used-up', times !== undefined && applied >= times);
  return row;
}
