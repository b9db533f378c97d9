import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ResetPlan } from './api-types.ts';
import { areFaultsActive } from './faults.ts';
import { FaultsView } from './faults-view.tsx';
import { KeysView } from './keys-view.tsx';
import { Problem, ServerText, useAttempt } from './parts.tsx';
import { formatRoute, titleOf, views } from './request-log.ts';
import { RequestsView } from './requests-view.tsx';
import { type Page, runPage } from './state.ts';
import { escapeInvisible, formatCount } from './text.ts';
import { serviceUrl } from './tools-client.ts';

const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;

function App({ page }: { page: Page }) {
  const { session, route, faults, connectionProblem, reset, log } = page.state;
  const isSignedIn = session === 'begun';
  const isLost = connectionProblem !== '';
  useEffect(() => {
    document.title = titleOf(log.requests, location);
  });
  return (
    <>
      <header>
        <div class="top">
          <h1>
            <img src={icon} alt="" width="24" height="24" /> pets serve
          </h1>
          <p id="address">{location.host}</p>
          {isSignedIn && (
            <>
              <p id="connection" class={isLost ? 'status failed' : ''} role="status">
                {isLost ? 'Not connected' : 'Live'}
              </p>
              <p id="zone">Times in {zone}</p>
              {reset && <ResetButton page={page} plan={reset} />}
            </>
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
                {view === 'faults' && faults && areFaultsActive(faults) && <span class="badge">on</span>}
              </a>
            ))}
          </nav>
        )}
        {isSignedIn && isLost && (
          <p id="lost" role="alert">
            {escapeInvisible(connectionProblem)}. Trying again…
          </p>
        )}
      </header>
      <main>
        {session === 'none' && <SignIn page={page} />}
        {isSignedIn && route.view === 'requests' && <RequestsView page={page} />}
        {isSignedIn && route.view === 'faults' && <FaultsView page={page} />}
        {isSignedIn && route.view === 'keys' && <KeysView page={page} />}
      </main>
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
      <p class="note">
        It looks like <code>{serviceUrl()}/#c=…</code> and works once, in one browser. With{' '}
        <code>--quiet</code>, <code>pets serve</code> prints no address: start it without <code>--quiet</code>
        .
      </p>
    </section>
  );
}

/** A button that resets the store after the user has confirmed what this deletes. */
function ResetButton({ page, plan }: { page: Page; plan: ResetPlan }) {
  const { problem, attempt } = useAttempt();
  const [done, setDone] = useState('');
  const reset = () =>
    attempt(async () => {
      // The animals may have changed since the page was opened.
      const { animals, location, seed } = (await page.server.get('reset')) as ResetPlan;
      const question = `This deletes ${formatCount(animals, 'animal')} and all orders in ${location}, and all idempotency keys, rate-limit windows and bans. API keys, the list of requests, and faults stay.`;
      const then = seed === undefined ? '' : ` Then the store is filled with ${seed}.`;
      if (!confirm(escapeInvisible(question + then))) return;
      const added = ((await page.server.send('POST', 'reset')) as { animals: number }).animals;
      setDone(`Store reset: ${formatCount(added, 'animal')}`);
      setTimeout(() => setDone(''), 10_000);
    });
  return (
    <div class="tools">
      {plan.reason !== undefined && (
        <span id="reset-reason" class="note">
          <ServerText text={plan.reason} />
        </span>
      )}
      <span role="status">{done}</span>
      <button
        type="button"
        disabled={!plan.allowed}
        aria-describedby={plan.allowed ? undefined : 'reset-reason'}
        onClick={reset}
      >
        Reset…
      </button>
      <Problem text={problem} />
    </div>
  );
}

const root = document.getElementById('page');
/** The build gives the icon another name, so read it from the document. */
const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]')?.href ?? '';
if (root) runPage((page) => render(<App page={page} />, root));
