import { useState } from 'preact/hooks';
import type { Faults } from './api-types.ts';
import {
  effectOf,
  formatLatency,
  isUsedUp,
  type NewRule,
  nameMatch,
  newRule,
  nextFaults,
  operations,
  type Rule,
  statuses,
} from './faults.ts';
import { Done, Field, focusDone, Problem, Row, Table, useAttempt } from './parts.tsx';
import type { Page } from './state.ts';
import { escapeAndShorten, formatCount, formatNumber } from './text.ts';

/** Adds a rule before the others. Returns its number. @throws Error with a message for the user */
async function addRule(page: Page, rule: NewRule): Promise<number | undefined> {
  const faults = (await page.server.send('POST', 'faults', JSON.stringify(rule))) as Faults;
  page.update({ faults });
  return faults.rules[0]?.number;
}

/** The injected faults, each with a button that removes it, and a form that adds a rule. */
export function FaultsView({ page }: { page: Page }) {
  const { faults } = page.state;
  const { problem, attempt } = useAttempt();
  const [done, setDone] = useState('');
  const remove = (path: string, text: string) =>
    attempt(async () => {
      page.update({ faults: (await page.server.send('DELETE', path)) as Faults });
      setDone(text);
      focusDone('faults-view');
    });
  const add = (rule: NewRule) =>
    attempt(async () => setDone(`Rule ${await addRule(page, rule)} is added: ${nameMatch(rule.match)}.`));
  return (
    <section id="faults-view" aria-labelledby="faults-title">
      <h2 id="faults-title">Faults</h2>
      <RuleForm add={add} />
      <p class="note">
        The first rule that matches decides. The details of a request can make the next one like it fail.
      </p>
      <Done text={done} />
      <Problem text={problem} />
      {faults && <CurrentFaults faults={faults} remove={remove} />}
    </section>
  );
}

function RuleForm({ add }: { add(rule: NewRule): void }) {
  const number = (name: string, placeholder: string) => (
    // Not a field of the type `number`, because the mouse wheel would change its value.
    <input name={name} inputMode="decimal" autocomplete="off" placeholder={placeholder} size={8} />
  );
  function submit(event: SubmitEvent): void {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    const read = (name: string) => String(fields.get(name)).replace(',', '.');
    const numberIn = (name: string) => (read(name) === '' ? undefined : Number(read(name)));
    add(newRule(operations[read('operation')], numberIn('status'), numberIn('delay'), numberIn('times')));
  }
  return (
    <form class="toolbar" aria-label="Add a rule" onSubmit={submit}>
      <Field label="Requests">
        <select name="operation">
          <option value="">all operations</option>
          {Object.entries(operations).map(([name, match]) => (
            <option key={name} value={name}>
              {nameMatch(match)}
            </option>
          ))}
        </select>
      </Field>
      <Field label="Status">
        <select name="status">
          {statuses.map((status) => (
            <option key={status} selected={status === 503}>
              {status}
            </option>
          ))}
          <option value="">as usual</option>
        </select>
      </Field>
      <Field label="Delay, s">{number('delay', '0')}</Field>
      <Field label="Times">{number('times', 'always')}</Field>
      <button type="submit" class="primary">
        Add rule
      </button>
      <button type="button" onClick={() => add(newRule(undefined, undefined, 2))}>
        Make all 2 s slower
      </button>
    </form>
  );
}

type CurrentFaultsProps = { faults: Faults; remove(path: string, text: string): void };

function CurrentFaults({ faults: { latency, failRate = 0, seed, rules }, remove }: CurrentFaultsProps) {
  if (!latency && failRate === 0 && rules.length === 0) return <p>No faults are injected.</p>;
  return (
    <>
      {latency && <p>Responses are delayed by {formatLatency(latency)}.</p>}
      {failRate > 0 && (
        <p>
          {Number((failRate * 100).toPrecision(3))} % of the requests fail (seed {seed}).
        </p>
      )}
      {rules.length > 0 && (
        <Table caption="Rules" columns={['Rule', 'Requests', 'Effect', 'Applied', 'Remove']}>
          <tbody role="rowgroup">
            {rules.map((rule) => (
              <Row
                key={rule.number}
                class={isUsedUp(rule) ? 'used-up' : ''}
                cells={{
                  Rule: rule.number,
                  Requests: escapeAndShorten(nameMatch(rule.match)),
                  Effect: effectOf(rule),
                  Applied: timesOf(rule),
                  Remove: (
                    <button
                      type="button"
                      aria-label={`Remove rule ${rule.number}`}
                      onClick={() => remove(`faults?rule=${rule.number}`, `Rule ${rule.number} is removed.`)}
                    >
                      ×
                    </button>
                  ),
                }}
              />
            ))}
          </tbody>
        </Table>
      )}
      <button type="button" onClick={() => remove('faults', 'All faults are removed.')}>
        Remove all faults
      </button>
    </>
  );
}

const timesOf = ({ times, applied }: Rule): string =>
  times === undefined
    ? formatCount(applied, 'time')
    : `${formatNumber(applied)} of ${formatCount(times, 'time')}${applied >= times ? ', used up' : ''}`;

/** Buttons that add a fault for the next request like this one, and what has become of the added rule. */
export function NextFaultButtons({ page, match }: { page: Page; match: Rule['match'] }) {
  const { problem, attempt } = useAttempt();
  const [added, setAdded] = useState<number>();
  const { log, faults } = page.state;
  if (match === undefined)
    return <p class="note">Only requests of the API&rsquo;s operations can be made to fail.</p>;
  const hit = log.requests.findLast(({ rule }) => rule === added)?.number;
  const waiting = faults?.rules.find((rule) => rule.number === added && !isUsedUp(rule));
  return (
    <div class="action">
      <div class="buttons" role="group" aria-label="Make the next one fail">
        {Object.entries(nextFaults(match)).map(([label, rule]) => (
          <button
            key={label}
            type="button"
            onClick={() => attempt(async () => setAdded(await addRule(page, rule)))}
          >
            {label}
          </button>
        ))}
      </div>
      <p class="note" role="status">
        {waiting && (
          <>
            The next {nameMatch(match)} {effectOf(waiting)} (<a href="#faults">rule {added}</a>)
          </>
        )}
        {added !== undefined && hit !== undefined && (
          <>
            <a href={`#requests?request=${hit}`}>Request {hit}</a> got rule {added}
          </>
        )}
      </p>
      <Problem text={problem} />
    </div>
  );
}
