import { useState } from 'preact/hooks';
import type { FaultSettings } from './api-types.ts';
import { addRule, type FaultForm, formOf, isUsedUp, type Rule, readForm, ruleExamples } from './faults.ts';
import type { Page } from './page.ts';
import { Field, Problem, Row, Table, useAttempt } from './parts.tsx';
import { count, formatNumber, visibleLine } from './text.ts';

/** The injected faults, and a form that replaces them. */
export function FaultsView({ page }: { page: Page }) {
  const { faults } = page.state;
  return (
    <section id="faults-view" aria-labelledby="faults-title">
      <h2 id="faults-title">Faults</h2>
      {faults && <CurrentFaults faults={faults} />}
      {faults && <FaultsForm page={page} faults={faults} />}
    </section>
  );
}

function CurrentFaults({ faults: { latency, failRate = 0, seed, rules = [] } }: { faults: FaultSettings }) {
  return (
    <>
      {latency && <p>Responses are delayed by {range(latency)} ms.</p>}
      {failRate > 0 && (
        <p>
          {Number((failRate * 100).toPrecision(3))} % of the requests fail (seed {seed}).
        </p>
      )}
      {!latency && failRate === 0 && rules.length === 0 && <p>No faults are injected.</p>}
      {rules.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: without it, the keyboard cannot scroll the box.
        <section class="scroll" tabIndex={0} aria-label="The rules in force">
          <Table caption="The rules in force" columns={['Rule', 'Requests', 'Answer', 'Delay', 'Applied']}>
            <tbody role="rowgroup">
              {rules.map((rule, i) => (
                <RuleRow key={`${i} ${JSON.stringify(rule)}`} rule={rule} number={i + 1} />
              ))}
            </tbody>
          </Table>
        </section>
      )}
    </>
  );
}

const range = ({ min, max }: { min: number; max: number }): string =>
  min === max ? `${min}` : `${min} to ${max}`;

function RuleRow({ rule, number }: { rule: Rule; number: number }) {
  const { match, answer, times, retryAfter, latency, applied = 0 } = rule;
  const retry = retryAfter === undefined ? '' : `, Retry-After ${retryAfter} s`;
  return (
    <Row
      class={isUsedUp(rule) ? 'used-up' : ''}
      cells={{
        Rule: number,
        Requests: visibleLine([match?.method, match?.path].filter(Boolean).join(' ') || 'all'),
        Answer: answer === undefined ? 'as usual' : `${answer}${retry}`,
        Delay: latency === undefined ? '–' : `${range(latency)} ms`,
        Applied:
          times === undefined
            ? count(applied, 'time')
            : `${formatNumber(applied)} of ${count(times, 'time')}${isUsedUp(rule) ? ', used up' : ''}`,
      }}
    />
  );
}

/** A form that shows the faults in force, until the user edits it. */
function FaultsForm({ page, faults }: { page: Page; faults: FaultSettings }) {
  const { problem, isBusy, attempt } = useAttempt();
  const [draft, setDraft] = useState<{ form: FaultForm; from: FaultForm }>();
  const current = formOf(faults);
  const form = draft?.form ?? current;
  const edit = (changes: Partial<FaultForm>) =>
    setDraft({ form: { ...form, ...changes }, from: draft?.from ?? current });
  const isOutdated = draft !== undefined && JSON.stringify(draft.from) !== JSON.stringify(current);
  const number = (name: 'min' | 'max' | 'failRate', max: number) => (
    <input
      type="number"
      name={name}
      min={0}
      max={max}
      step="any"
      inputMode="decimal"
      placeholder="0"
      value={form[name]}
      onInput={({ currentTarget }) => edit({ [name]: currentTarget.value })}
    />
  );

  const change = (method: 'PUT' | 'DELETE', text: string) =>
    attempt(async () => {
      const { rules = [] } = method === 'PUT' ? ((await page.server.get('faults')) as FaultSettings) : faults;
      const body = method === 'PUT' ? readForm(form, draft?.from ?? current, rules) : undefined;
      const changed = await page.server.send(method, 'faults', body);
      setDraft(undefined);
      page.update({ faults: changed as FaultSettings, announcement: text });
    });
  return (
    <form
      class="faults"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        change('PUT', 'The faults are set');
      }}
    >
      <h3>Change</h3>
      <div class="toolbar">
        <Field label="Shortest latency, ms">{number('min', 600_000)}</Field>
        <Field label="Longest latency, ms">{number('max', 600_000)}</Field>
        <Field label="Requests that fail, %">{number('failRate', 100)}</Field>
      </div>
      <Field label="Rules, as a JSON array" isWide>
        <textarea
          name="rules"
          rows={9}
          spellcheck={false}
          autocomplete="off"
          placeholder="[]"
          value={form.rules}
          onInput={({ currentTarget }) => edit({ rules: currentTarget.value })}
        />
      </Field>
      <p class="examples">
        Add an example:{' '}
        {ruleExamples.map(({ title, rule }) => (
          <button
            key={title}
            type="button"
            class="quiet"
            onClick={() => attempt(() => edit({ rules: addRule(form.rules, rule) }))}
          >
            {title}
          </button>
        ))}
      </p>
      {isOutdated && (
        <p class="problem">The faults have changed since you began to edit. Set faults replaces them.</p>
      )}
      <Problem text={problem} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={isBusy}>
          Set faults
        </button>
        {draft && (
          <button type="button" onClick={() => setDraft(undefined)}>
            Discard changes
          </button>
        )}
        <button type="button" disabled={isBusy} onClick={() => change('DELETE', 'All faults are cleared')}>
          Clear all faults
        </button>
      </div>
    </form>
  );
}
