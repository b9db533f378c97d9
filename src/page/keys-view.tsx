import { useState } from 'preact/hooks';
import { formatDuration } from '../contract/time-text.ts';
import type { Key, Keys } from './api-types.ts';
import { Done, focusDone, Problem, Row, Table, useAttempt } from './parts.tsx';
import { formatRoute, noFilter } from './request-log.ts';
import type { Page } from './state.ts';
import { escapeAndShorten, formatCount, formatNumber, formatTime } from './text.ts';

/** The API keys, with the requests that are left in this minute and this day, and their bans. */
export function KeysView({ page }: { page: Page }) {
  const { keys } = page.state;
  const { problem, attempt } = useAttempt();
  const [lifted, setLifted] = useState('');
  const liftBan = (name: string) =>
    attempt(async () => {
      const changed = (await page.server.send('DELETE', `bans?key=${encodeURIComponent(name)}`)) as Keys;
      page.update({ keys: changed });
      setLifted(describeLifted(changed, name));
      focusDone('keys-view');
    });
  return (
    <section id="keys-view" aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      {keys && (
        <p class="note">
          {formatCount(keys.total, 'key')}
          {keys.keys.length < keys.total && `, of which ${formatCount(keys.keys.length, 'key')} are shown`}
        </p>
      )}
      <Done text={lifted} />
      <Problem text={problem} />
      {keys && (
        <Table caption="API keys" columns={['Name', 'Plan', 'Minute', 'Day', 'Ban']}>
          <tbody role="rowgroup">
            {keys.keys.map((key) => (
              <KeyRow key={key.name} {...key} now={keys.time} liftBan={() => liftBan(key.name)} />
            ))}
          </tbody>
        </Table>
      )}
    </section>
  );
}

const timeLeft = (end: string, now: string): string => formatDuration(Date.parse(end) - Date.parse(now));

/** Says that a ban is lifted, and how long a limit is still used up. */
function describeLifted({ keys, time }: Keys, name: string): string {
  const { minute, day } = keys.find((each) => each.name === name) ?? {};
  const usedUp = day?.left === 0 ? day : minute?.left === 0 ? minute : undefined;
  const rest = usedUp && `; its limit is still used up for ${timeLeft(usedUp.endsAt, time)}`;
  return `The ban of ${escapeAndShorten(name)} is lifted${rest ?? ''}.`;
}

type KeyRowProps = Key & { now: string; liftBan(): void };

function KeyRow({ name, plan, minute, day, bannedUntil, now, liftBan }: KeyRowProps) {
  const window = (counts: Key['minute'], unit: string) =>
    counts && (
      <>
        <b class={counts.left === 0 ? 'status rejected' : ''}>{formatNumber(counts.left)}</b> of{' '}
        {formatNumber(counts.limit)} left in this {unit}, which ends in {timeLeft(counts.endsAt, now)}
      </>
    );
  const requests = formatRoute({ view: 'requests', filter: { ...noFilter, key: name }, request: undefined });
  return (
    <Row
      cells={{
        Name: (
          <a href={requests}>
            <bdi>{escapeAndShorten(name)}</bdi>
          </a>
        ),
        Plan: escapeAndShorten(plan),
        Minute: window(minute, 'minute'),
        Day: window(day, 'day'),
        Ban:
          bannedUntil === undefined ? (
            'not banned'
          ) : (
            <>
              <span class="banned">
                banned until {formatTime(bannedUntil, new Date(now))} ({timeLeft(bannedUntil, now)} left)
              </span>{' '}
              <button type="button" onClick={liftBan}>
                Lift ban
              </button>
            </>
          ),
      }}
    />
  );
}
