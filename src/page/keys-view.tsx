import { useState } from 'preact/hooks';
import { formatDuration } from '../contract/time-text.ts';
import type { Key, Keys } from './api-types.ts';
import type { Page } from './page.ts';
import { Problem, Row, Table, useAttempt } from './parts.tsx';
import { formatRoute, noFilter } from './request-log.ts';
import { escapeAndShorten, formatCount, formatNumber, formatTime } from './text.ts';

/** The API keys, with the requests that are left in this minute and this day, and their bans. */
export function KeysView({ page }: { page: Page }) {
  const { keys } = page.state;
  const { problem, isBusy, attempt } = useAttempt();
  const [lifted, setLifted] = useState('');
  const liftBan = (name: string) =>
    attempt(async () => {
      const changed = (await page.server.send('DELETE', `bans?key=${encodeURIComponent(name)}`)) as Keys;
      page.update({ keys: changed });
      setLifted(`Ban of ${escapeAndShorten(name)} lifted`);
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
      <p role="status">{lifted}</p>
      <Problem text={problem} />
      {keys && (
        <Table caption="API keys" columns={['Name', 'Plan', 'Minute', 'Day', 'Ban']}>
          <tbody role="rowgroup">
            {keys.keys.map((key) => (
              <KeyRow
                key={key.name}
                {...key}
                now={new Date(keys.time)}
                isBusy={isBusy}
                liftBan={() => liftBan(key.name)}
              />
            ))}
          </tbody>
        </Table>
      )}
    </section>
  );
}

type KeyRowProps = Key & { now: Date; isBusy: boolean; liftBan(): void };

function KeyRow({ name, plan, minute, day, bannedUntil, now, isBusy, liftBan }: KeyRowProps) {
  const left = (end: string) => formatDuration(Date.parse(end) - now.getTime());
  const window = (counts: Key['minute'], unit: string) =>
    counts && (
      <>
        <b class={counts.left === 0 ? 'status rejected' : ''}>{formatNumber(counts.left)}</b> of{' '}
        {formatNumber(counts.limit)} left in this {unit}, which ends in {left(counts.endsAt)}
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
                banned until {formatTime(bannedUntil, now)} ({left(bannedUntil)} left)
              </span>{' '}
              <button type="button" disabled={isBusy} onClick={liftBan}>
                Lift ban
              </button>
            </>
          ),
      }}
    />
  );
}
