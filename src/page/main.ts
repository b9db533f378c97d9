import { createApi } from './api.ts';
import { byId } from './element.ts';
import { createFaultsView } from './faults-view.ts';
import { createKeysView } from './keys-view.ts';
import type { PageContext, View } from './page-context.ts';
import { createFollower } from './polling.ts';
import { announcement, clearLog } from './request-log.ts';
import { createRequestsView } from './requests-view.ts';
import { createResetDialog } from './reset-dialog.ts';
import { createAnnouncer, failureReason, showConnection } from './status.ts';

const api = createApi(showConnect);
const context: PageContext = { get: api.get, send: api.send, announce: createAnnouncer() };
const follower = createFollower(api, {
  onPoll(log, requests, isFirst) {
    showConnection('live');
    requestsView.update(log);
    if (isFirst) return;
    const text = announcement(requests);
    if (text !== undefined && shown === 'requests') context.announce(text);
  },
  onFailure(error) {
    if (api.hasToken()) showConnection('lost', failureReason(error));
  },
});
const requestsView = createRequestsView(context, {
  clear: () => requestsView.update(follower.update(clearLog)),
  pause(isPressed) {
    isPaused = isPressed;
    restart();
  },
});
const faultsBadge = byId('faults-badge');
const faultsView = createFaultsView(context, (areActive) => {
  faultsBadge.hidden = !areActive;
});
const views: Readonly<Record<string, View>> = {
  requests: requestsView,
  keys: createKeysView(context),
  faults: faultsView,
};

let shown = 'requests';
/** Whether the user has stopped the updates. */
let isPaused = false;
/** Aborted when the page must send nothing: while its tab is hidden, while it is paused, and without a token. */
let following = new AbortController();
let viewing = new AbortController();

function showView(): void {
  viewing.abort();
  viewing = new AbortController();
  for (const link of document.querySelectorAll<HTMLAnchorElement>('nav a')) {
    const isShown = link.hash === `#${shown}`;
    if (isShown) {
      link.setAttribute('aria-current', 'page');
      link.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    } else link.removeAttribute('aria-current');
    byId(`${link.hash.slice(1)}-view`).hidden = !isShown;
  }
  if (api.hasToken() && !document.hidden) views[shown]?.show(viewing.signal);
}

/** Starts or stops all requests of the page, depending on the token, the pause and the visibility of the tab. */
function restart(): void {
  following.abort();
  following = new AbortController();
  byId('connect').hidden = api.hasToken();
  for (const part of document.querySelectorAll<HTMLElement>('[data-needs-token]'))
    part.hidden = !api.hasToken();
  if (isPaused) showConnection('paused');
  else if (api.hasToken() && !document.hidden) {
    follower.follow(following.signal);
    faultsView.refresh(following.signal);
  }
  showView();
}

/** Stops all requests, and asks for a token. */
function showConnect(): void {
  restart();
  byId('connect-title').focus();
}

/**
 * Reads a code or the name of a view from the address, and returns whether there was a code. A code is removed from the
 * address, so that it is not copied by mistake.
 */
function readAddress(): boolean {
  const { hash } = location;
  const isCode = hash.startsWith('#c=');
  if (isCode) {
    history.replaceState(null, '', location.pathname);
    api.openSession(hash.slice(3)).then(restart, ({ message }) => {
      api.setToken('');
      byId('connect-title').textContent = message;
      showConnect();
    });
  }
  const name = hash.slice(1);
  if (name !== shown && document.getElementById(`${name}-view`)) {
    shown = name;
    scrollTo(0, 0);
  }
  return isCode;
}

byId('address').textContent = location.host;
byId('connect-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const field = byId<HTMLInputElement>('token');
  api.setToken(field.value.trim());
  field.value = '';
  if (api.hasToken()) restart();
});
createResetDialog(context, restart);
addEventListener('hashchange', () => readAddress() || showView());
document.addEventListener('visibilitychange', restart);
if (!readAddress()) restart();
