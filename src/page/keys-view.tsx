import { formatDuration } from '../system/time-text.ts';
import { Row, Table } from './parts.tsx';
import { formatRoute } from './requests.ts';
import type { Page } from './state.ts';
import { escapeAndShorten, formatNumber, formatTime, type Keys } from './text.ts';

/** The API keys, with the requests that are left in this minute and this day, and their bans. */
export function KeysView({ page }: { page: Page }) {
  const { keys } = page.state;
  const liftBan = (name: string) =>
    page.act(async () => {
      const changed = (await page.server.send('DELETE', `bans?key=${encodeURIComponent(name)}`)) as Keys;
      page.update({ keys: changed });
      return describeLiftedBan(changed, name);
    });
  return (
    <section id="keys-view" aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      {keys && (
        <Table caption="API keys" columns={['Name', 'Plan', 'Minute', 'Day', 'Ban']}>
          {keys.keys.map((key) => (
            <KeyRow key={key.name} {...key} now={keys.time} liftBan={() => liftBan(key.name)} />
          ))}
        </Table>
      )}
    </section>
  );
}

const timeLeft = (end: string, now: string): string => formatDuration(Date.parse(end) - Date.parse(now));

/** A sentence that the ban is lifted, and how long the key must still wait if a limit is used up. */
function describeLiftedBan({ keys, time }: Keys, name: string): string {
  const { minute, day } = keys.find((each) => each.name === name) ?? {};
  const usedUp = [day, minute].find((window) => window?.left === 0);
  const rest = usedUp && `; its limit is used up for another ${timeLeft(usedUp.endsAt, time)}`;
  return `The ban of ${escapeAndShorten(name)} is lifted${rest ?? ''}`;
}

type KeyRowProps = Keys['keys'][number] & { now: string; liftBan(): void };

function KeyRow({ name, plan, minute, day, bannedUntil, now, liftBan }: KeyRowProps) {
  const window = (counts: typeof minute) =>
    counts && (
      <>
        <b class={counts.left === 0 ? 'rejected' : ''}>{formatNumber(counts.left)}</b> of{' '}
        {formatNumber(counts.limit)} left, ends in {timeLeft(counts.endsAt, now)}
      </>
    );
  const ban = bannedUntil && (
    <>
      <span class="rejected">
        banned until {formatTime(bannedUntil, new Date(now))} ({timeLeft(bannedUntil, now)} left)
      </span>{' '}
      <button type="button" onClick={liftBan}>
        Lift ban
      </button>
    </>
  );
  const requests = formatRoute({ view: 'requests', text: name });
  return (
    <Row
      cells={{
        Name: (
          <a href={requests}>
            <bdi>{escapeAndShorten(name)}</bdi>
          </a>
        ),
        Plan: escapeAndShorten(plan),
        Minute: window(minute),
        Day: window(day),
        Ban: ban ?? 'not banned',
      }}
    />
  );
}
