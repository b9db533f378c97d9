import { useState } from 'preact/hooks';
import type { FaultSettings } from './api-types.ts';
import {
  addRule,
  affectedRequestNumber,
  effectOf,
  type FaultForm,
  formatLatency,
  formOf,
  isUsedUp,
  matchChoices,
  nameMatch,
  nextRequestFaults,
  type Rule,
  readForm,
  ruleExamples,
} from './faults.ts';
import type { Page } from './page.ts';
import { Field, Problem, Row, Table, useAttempt } from './parts.tsx';
import { escapeAndShorten, formatCount, formatNumber } from './text.ts';

/** The injected faults, buttons that add a fault, and a form that replaces all faults. */
export function FaultsView({ page }: { page: Page }) {
  const { faults } = page.state;
  const [target, setTarget] = useState(0);
  return (
    <section id="faults-view" aria-labelledby="faults-title">
      <h2 id="faults-title">Faults</h2>
      <div class="toolbar">
        <Field label="Make the next one fail">
          <select
            name="target"
            value={target}
            onChange={({ currentTarget }) => setTarget(currentTarget.selectedIndex)}
          >
            {matchChoices.map((match, i) => (
              <option key={nameMatch(match)} value={i}>
                {nameMatch(match)}
              </option>
            ))}
          </select>
        </Field>
        <NextFaultButtons page={page} match={matchChoices[target]} />
      </div>
      <p class="note">The details of a request have the same buttons, for requests like it.</p>
      {faults && <CurrentFaults faults={faults} />}
      {faults && <FaultsForm page={page} faults={faults} />}
    </section>
  );
}

function CurrentFaults({ faults: { latency, failRate = 0, seed, rules = [] } }: { faults: FaultSettings }) {
  return (
    <>
      {latency && <p>Responses are delayed by {formatLatency(latency)}.</p>}
      {failRate > 0 && (
        <p>
          {Number((failRate * 100).toPrecision(3))} % of the requests fail (seed {seed}).
        </p>
      )}
      {!latency && failRate === 0 && rules.length === 0 && <p>No faults are injected.</p>}
      {rules.length > 0 && (
        <Table caption="The rules in force" columns={['Rule', 'Requests', 'Effect', 'Applied']}>
          <tbody role="rowgroup">
            {rules.map((rule, i) => (
              <Row
                key={`${i} ${JSON.stringify(rule)}`}
                class={isUsedUp(rule) ? 'used-up' : ''}
                cells={{
                  Rule: i + 1,
                  Requests: escapeAndShorten(nameMatch(rule.match)),
                  Effect: effectOf(rule),
                  Applied: timesOf(rule),
                }}
              />
            ))}
          </tbody>
        </Table>
      )}
    </>
  );
}

const timesOf = ({ times, applied = 0 }: Rule): string =>
  times === undefined
    ? formatCount(applied, 'time')
    : `${formatNumber(applied)} of ${formatCount(times, 'time')}${applied >= times ? ', used up' : ''}`;

/** Buttons that add a fault for the next matching request, and a note about the added fault. */
export function NextFaultButtons({ page, match }: { page: Page; match: Rule['match'] }) {
  const { problem, isBusy, attempt } = useAttempt();
  const { route, log, faults, addedRule } = page.state;
  const add = (failure: string) =>
    attempt(async () => {
      const rule = { match, ...nextRequestFaults[failure] };
      const after = log.requests[0]?.number ?? 0;
      const changed = await page.server.send('POST', 'faults', JSON.stringify(rule));
      page.update({
        faults: changed as FaultSettings,
        addedRule: { ...rule, after },
        announcement: `Added: ${failure}`,
      });
    });
  const isSame = (rule: { match?: Rule['match'] } | undefined) =>
    rule !== undefined && JSON.stringify(rule.match) === JSON.stringify(match);
  const rules = faults?.rules ?? [];
  const waiting = rules.find((rule) => rule.times && !isUsedUp(rule) && isSame(rule));
  const hit = !waiting && isSame(addedRule) ? affectedRequestNumber(addedRule, log.requests) : undefined;
  const isInFaults = route.view === 'faults';
  const ruleName = waiting && `rule ${rules.indexOf(waiting) + 1}`;
  return (
    <div class="action">
      <fieldset class="buttons" disabled={match === undefined || isBusy}>
        <legend class="hidden-text">Make the next one fail</legend>
        {Object.keys(nextRequestFaults).map((failure) => (
          <button key={failure} type="button" onClick={() => add(failure)}>
            {failure}
          </button>
        ))}
      </fieldset>
      {match === undefined && (
        <p class="note">Only requests of the API&rsquo;s operations can be made to fail.</p>
      )}
      {waiting && (
        <p class="note">
          The next {isSame({ match: {} }) ? 'request' : escapeAndShorten(nameMatch(match))}{' '}
          {effectOf(waiting)} ({isInFaults ? ruleName : <a href="#faults">{ruleName}</a>})
        </p>
      )}
      {hit !== undefined && (isInFaults || hit !== route.request) && (
        <p class="note">
          <a href={`#requests?request=${hit}`}>Request {hit}</a> got this {addedRule?.answer ?? 'delay'}
        </p>
      )}
      <Problem text={problem} />
    </div>
  );
}

/** A form that shows the faults in force, until the user edits it. */
function FaultsForm({ page, faults }: { page: Page; faults: FaultSettings }) {
  const { problem, isBusy, attempt } = useAttempt();
  const [draft, setDraft] = useState<FaultForm>();
  const form = draft ?? formOf(faults);
  const edit = (changes: Partial<FaultForm>) => setDraft({ ...form, ...changes });
  // Not a field of the type `number`, because the mouse wheel would change its value.
  const number = (name: 'min' | 'max' | 'failRate') => (
    <input
      name={name}
      inputMode="decimal"
      autocomplete="off"
      placeholder="0"
      value={form[name]}
      onInput={({ currentTarget }) => edit({ [name]: currentTarget.value })}
    />
  );

  const change = (method: 'PUT' | 'DELETE', text: string) =>
    attempt(async () => {
      const body = method === 'PUT' ? readForm(form) : undefined;
      const changed = await page.server.send(method, 'faults', body);
      setDraft(undefined);
      page.update({ faults: changed as FaultSettings, announcement: text });
    });
  return (
    <form
      class="faults"
      onSubmit={(event) => {
        event.preventDefault();
        change('PUT', 'The faults are set');
      }}
    >
      <h3>Change</h3>
      <div class="toolbar">
        <Field label="Shortest latency, s">{number('min')}</Field>
        <Field label="Longest latency, s">{number('max')}</Field>
        <Field label="Requests that fail, %">{number('failRate')}</Field>
      </div>
      <Field label="Rules, as a JSON array, with latency in ms" isWide>
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
      <p class="buttons">
        Add an example:
        {ruleExamples.map(({ title, rule }) => (
          <button
            key={title}
            type="button"
            onClick={() => attempt(() => edit({ rules: addRule(form.rules, rule) }))}
          >
            {title}
          </button>
        ))}
      </p>
      <Problem text={problem} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={isBusy}>
          Set faults
        </button>
        <button type="button" disabled={isBusy} onClick={() => change('DELETE', 'All faults are cleared')}>
          Clear all faults
        </button>
        {draft && (
          <button type="button" onClick={() => setDraft(undefined)}>
            Discard changes
          </button>
        )}
      </div>
    </form>
  );
}
