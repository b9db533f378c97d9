import {
  describeEffect,
  formatLatency,
  isUsedUp,
  matchLabel,
  type NewRule,
  newRule,
  operations,
  type Rule,
  statuses,
} from './faults.ts';
import { Field, Row, Table } from './parts.tsx';
import type { Page } from './state.ts';
import { escapeAndShorten, type Faults, formatCount, formatNumber } from './text.ts';

/** A form that adds a rule, the list of injected faults, a button that removes all, and in each rule one that removes it. */
export function FaultsView({ page }: { page: Page }) {
  const { faults } = page.state;
  const remove = (path: string, done: string) =>
    page.act(async () => {
      page.update({ faults: (await page.server.send('DELETE', path)) as Faults });
      return done;
    });
  return (
    <section id="faults-view" aria-labelledby="faults-title">
      <h2 id="faults-title">Faults</h2>
      <RuleForm add={(rule) => page.act(() => page.addRule(rule))} />
      <p class="note">
        The first rule that matches decides. To make the next request like an earlier one fail, open that one.
      </p>
      {faults && <CurrentFaults faults={faults} remove={remove} />}
    </section>
  );
}

function RuleForm({ add }: { add(rule: NewRule): void }) {
  const numberField = (name: string, placeholder: string) => (
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
          <option value="">{matchLabel()}</option>
          {Object.entries(operations).map(([name, match]) => (
            <option key={name} value={name}>
              {matchLabel(match)}
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
      <Field label="Latency, s">{numberField('delay', '0')}</Field>
      <Field label="Times">{numberField('times', 'always')}</Field>
      <button type="submit" class="primary">
        Add rule
      </button>
      <button type="button" onClick={() => add(newRule(undefined, undefined, 2))}>
        Make all 2 s slower
      </button>
    </form>
  );
}

type CurrentFaultsProps = { faults: Faults; remove(path: string, done: string): void };

function CurrentFaults({ faults: { latency, failRate = 0, seed, rules }, remove }: CurrentFaultsProps) {
  if (!latency && failRate === 0 && rules.length === 0) return <p>No faults are injected.</p>;
  return (
    <>
      {latency && <p>Responses are delayed by {formatLatency(latency)}.</p>}
      {failRate > 0 && (
        <p>
          {Number((failRate * 100).toPrecision(3))}% of the requests fail (seed {seed}).
        </p>
      )}
      {rules.length > 0 && (
        <Table caption="Rules" columns={['Rule', 'Requests', 'Effect', 'Applied', 'Remove']}>
          {rules.map((rule) => (
            <Row
              key={rule.number}
              class={isUsedUp(rule) ? 'muted' : ''}
              cells={{
                Rule: rule.number,
                Requests: escapeAndShorten(matchLabel(rule.match)),
                Effect: describeEffect(rule),
                Applied: timesOf(rule),
                Remove: (
                  <button
                    type="button"
                    aria-label={`Remove rule ${rule.number}`}
                    onClick={() => remove(`faults?rule=${rule.number}`, `Rule ${rule.number} is removed`)}
                  >
                    ×
                  </button>
                ),
              }}
            />
          ))}
        </Table>
      )}
      <button type="button" onClick={() => remove('faults', 'All faults are removed')}>
        Remove all faults
      </button>
    </>
  );
}

const timesOf = ({ times, applied }: Rule): string =>
  times === undefined
    ? formatCount(applied, 'time')
    : `${formatNumber(applied)} of ${formatCount(times, 'time')}${applied >= times ? ', used up' : ''}`;
