import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { formatDuration } from '../system/time-text.ts';
import { areFaultsActive } from './faults.ts';
import { FaultsView } from './faults-view.tsx';
import { Row, ServerText, Table } from './parts.tsx';
import { formatRoute, titleOf, views } from './requests.ts';
import { RequestsView } from './requests-view.tsx';
import { type Page, runPage } from './state.ts';
import {
  escapeAndShorten,
  escapeInvisible,
  formatCount,
  formatNumber,
  formatTime,
  type KeyList,
  type ResetPlan,
} from './text.ts';

const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;

function App({ page }: { page: Page }) {
  const { session, route, faults, log, message, connectionProblem } = page.state;
  const isSignedIn = session === 'begun';
  const isLost = connectionProblem !== '';
  useEffect(() => {
    document.title = titleOf(log.requests, location);
  });
  return (
    <>
      <header>
        <div class="toolbar">
          <h1>
            <img src={icon} alt="" width="24" height="24" /> pets serve
          </h1>
          <p id="address">{location.host}</p>
          {isSignedIn && (
            <p id="connection" class={isLost ? 'failed' : ''} role="status">
              {isLost ? 'Not connected' : 'Live'}
            </p>
          )}
          <p>Times in {zone}</p>
          {isSignedIn && (
            <button id="reset" type="button" onClick={() => page.act(() => resetStore(page))}>
              Reset…
            </button>
          )}
        </div>
        {isSignedIn && (
          <nav aria-label="Views">
            {Object.entries(views).map(([view, title]) => (
              <a
                key={view}
                href={formatRoute({ ...route, view: view as typeof route.view })}
                aria-current={view === route.view ? 'page' : undefined}
              >
                {title}
                {view === 'faults' && faults && areFaultsActive(faults) && <b class="rejected"> on</b>}
              </a>
            ))}
          </nav>
        )}
      </header>
      <main tabIndex={-1}>
        {session === 'none' && <SignIn page={page} />}
        {isSignedIn && route.view === 'requests' && <RequestsView page={page} />}
        {isSignedIn && route.view === 'faults' && <FaultsView page={page} />}
        {isSignedIn && route.view === 'keys' && <KeysView page={page} />}
      </main>
      <p id="message" role={isLost || message.isProblem ? 'alert' : 'status'} tabIndex={-1}>
        <ServerText text={isLost ? `${connectionProblem}. Trying again…` : message.text} />
      </p>
    </>
  );
}

function SignIn({ page }: { page: Page }) {
  return (
    <section id="sign-in" aria-labelledby="sign-in-title">
      <h2 id="sign-in-title">This page needs a new address</h2>
      <p role="alert">
        {page.state.signInProblem && `${escapeInvisible(page.state.signInProblem)}. `}
        Open the page address that <code>pets serve</code> printed last.
      </p>
      <p class="note">It works once, in one browser. If there is none, start pets serve without --quiet.</p>
    </section>
  );
}

/** Resets the store after the user has confirmed what this deletes. @throws Error with a message for the user */
async function resetStore({ server }: Page): Promise<string> {
  const { reason, animals, location, seed } = (await server.send('GET', 'reset')) as ResetPlan;
  if (reason !== undefined) throw new Error(reason);
  const then = seed === undefined ? '' : ` Then the store is filled with ${seed}.`;
  const question = `This deletes ${formatCount(animals, 'animal')} and all orders in ${location}, and all idempotency keys, rate-limit windows and bans. API keys, the list of requests, and faults stay.${then}`;
  if (!confirm(escapeInvisible(question))) return '';
  const added = (await server.send('POST', 'reset')) as { animals: number };
  return `The store is reset: ${formatCount(added.animals, 'animal')}`;
}

/** The API keys, with the requests that are left in this minute and this day, and their bans. */
export function KeysView({ page }: { page: Page }) {
  const { keys } = page.state;
  const liftBan = (name: string) =>
    page.act(async () => {
      const changed = (await page.server.send('DELETE', `bans?key=${encodeURIComponent(name)}`)) as KeyList;
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
function describeLiftedBan({ keys, time }: KeyList, name: string): string {
  const { minute, day } = keys.find((each) => each.name === name) ?? {};
  const usedUp = [day, minute].find((window) => window?.left === 0);
  const rest = usedUp && `; the limit of this key is used up for another ${timeLeft(usedUp.endsAt, time)}`;
  return `The ban of ${escapeAndShorten(name)} is lifted${rest ?? ''}`;
}

type KeyRowProps = KeyList['keys'][number] & { now: string; liftBan(): void };

function KeyRow({ name, plan, minute, day, bannedUntil, now, liftBan }: KeyRowProps) {
  const windowText = (counts: typeof minute) =>
    counts && (
      <>
        <b class={counts.left === 0 ? 'rejected' : ''}>{formatNumber(counts.left)}</b> of{' '}
        {formatNumber(counts.limit)} left, resets in {timeLeft(counts.endsAt, now)}
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
        Minute: windowText(minute),
        Day: windowText(day),
        Ban: ban ?? 'not banned',
      }}
    />
  );
}

const root = document.getElementById('page');
/** The build gives the icon another name, so read it from the document. */
const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]')?.href ?? '';
if (root) runPage((page) => render(<App page={page} />, root));
