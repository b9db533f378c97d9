import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { LoggedRequest, RunningRequest, UnrecordedRequests } from './api-types.ts';
import { quote } from './curl.ts';
import { affectedRequestNumber } from './faults.ts';
import type { Page, State } from './page.ts';
import { Code, Field, Row, Table } from './parts.tsx';
import { closeDetails, focusDetails, Reason, RequestDetails } from './request-details.tsx';
import { MAX_REQUESTS, MAX_SEARCH_TEXT, matchesFilter, noFilter, type RequestFilter } from './request-log.ts';
import { serviceUrl } from './server.ts';
import {
  durationText,
  escapeAndShorten,
  formatCount,
  formatNumber,
  formatTime,
  localTime,
  statusKind,
} from './text.ts';

/** A page that is scrolled by at most this many pixels counts as not scrolled. */
const TOP = 10;

type ListedRequest = LoggedRequest | RunningRequest;

const isLogged = (request: ListedRequest): request is LoggedRequest => 'number' in request;

/** The list of requests, its filters, and the details of one request. */
export function RequestsView({ page }: { page: Page }) {
  const { log, route } = page.state;
  const { filter, request: opened } = route;
  const matching = [...log.running, ...log.requests].filter((each) => matchesFilter(each, filter));
  const { shown, others, waiting, hold } = useStillList(matching, page.state);
  const body = useRef<HTMLTableSectionElement>(null);
  useArrowKeys(page, body);
  const isOpenedShown = shown.some((each) => isLogged(each) && each.number === opened);
  const firstInTabOrder = isOpenedShown ? opened : shown.find(isLogged)?.number;
  // Scroll to the opened row: it can be far below, and rows have another height beside the details. Do this only once
  // for each request: when the view is shown again, the newest requests are more important.
  useLayoutEffect(() => {
    if (opened !== undefined && (!isOpenedShown || opened === page.scrolledTo)) return;
    page.scrolledTo = opened;
    body.current?.querySelector('.opened')?.scrollIntoView({ block: 'nearest' });
  }, [opened, isOpenedShown]);

  /** Opens the request whose row was clicked, unless the click was on a link or ended the selection of a text. */
  function open({ target, currentTarget, detail }: MouseEvent): void {
    const button = (target as Element).closest('tr')?.querySelector('button');
    const isSelecting = detail > 0 && getSelection()?.isCollapsed === false;
    if (!button || isSelecting || (target as Element).closest('a')) return;
    page.go({ request: Number(button.dataset['number']) });
    // Focus the details after a click by the keyboard (without `detail`), and if they now take the place of the list.
    if (detail === 0 || !(currentTarget as Element).checkVisibility()) focusDetails();
  }

  function showNewest(): void {
    // On narrow screens, the details take the place of the list.
    if (body.current?.checkVisibility() === false) closeDetails(page);
    scrollTo(0, 0);
  }

  return (
    <section id="requests-view" aria-labelledby="requests-title">
      <div id="requests-list">
        <h2 id="requests-title">Requests</h2>
        <p class="note">
          The last {formatNumber(MAX_REQUESTS)} are kept. Click one to see why, to send it again, or to make
          the next one fail.
        </p>
        <FilterForm page={page} />
        {others && <OtherOriginsNote {...others} />}
        <Table
          caption="Requests, the newest first"
          columns={['Time', 'Request', 'Reason', 'Key', 'Duration']}
        >
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: each row has a button, whose clicks by the keyboard arrive here. */}
          <tbody
            ref={body}
            role="rowgroup"
            onPointerEnter={(event) => hold(event.pointerType !== 'touch')}
            onPointerLeave={() => hold(false)}
            onClick={open}
          >
            {shown.map((each, i) => {
              const number = isLogged(each) ? each.number : undefined;
              return (
                <RequestRow
                  key={number ?? `running ${i}`}
                  request={each}
                  isOpened={number !== undefined && number === opened}
                  isInTabOrder={number === firstInTabOrder}
                />
              );
            })}
          </tbody>
        </Table>
        {shown.length === 0 && log.cursor !== undefined && (
          <EmptyList hasRequests={log.requests.length > 0 || filter.text !== ''} />
        )}
      </div>
      {opened !== undefined && <RequestDetails key={opened} page={page} number={opened} />}
      {waiting > 0 && (
        <button type="button" class="waiting primary" onClick={showNewest}>
          {formatCount(waiting, 'new request')} ↑
        </button>
      )}
    </section>
  );
}

/**
 * Keeps the rows still while the mouse points at them, or while the page is scrolled: new requests wait, and requests
 * that were running are completed in place. The opened request, and the one that the latest rule affected, do not wait.
 */
function useStillList(current: readonly ListedRequest[], { log, route, addedRule }: State) {
  const { otherOrigins: others, text } = log;
  const urgent = [route.request, affectedRequestNumber(addedRule, log.requests)];
  const [isPointedAt, hold] = useState(false);
  const [, setScrolled] = useState(false);
  useEffect(() => {
    const listen = () => setScrolled(scrollY > TOP);
    addEventListener('scroll', listen, { passive: true });
    return () => removeEventListener('scroll', listen);
  }, []);
  // Use the text of the log, because the results of a search arrive after the user has typed its text.
  const chosen = JSON.stringify({ ...route.filter, text });
  const newest = current.find(isLogged)?.number ?? 0;
  const still = useRef({ chosen, rows: current, others, newest });
  const isUrgent = current.some(
    (each) => isLogged(each) && each.number > still.current.newest && urgent.includes(each.number),
  );
  if (still.current.chosen !== chosen || isUrgent || !(isPointedAt || scrollY > TOP)) {
    still.current = { chosen, rows: current, others, newest };
  }
  const held = still.current;
  held.rows = held.rows.map((row) => (isLogged(row) ? row : (finished(row, current, held.newest) ?? row)));
  const waiting = current.filter(
    (each) => isLogged(each) && each.number > held.newest && !held.rows.includes(each),
  ).length;
  return { shown: held.rows, others: held.others, waiting, hold };
}

/** The logged request that a running one has become, numbered above `newest`. Clients may use an id again. */
const finished = (
  { id, method, url, client }: RunningRequest,
  requests: readonly ListedRequest[],
  newest: number,
): LoggedRequest | undefined =>
  requests
    .filter(isLogged)
    .filter((each) => each.number > newest && each.id === id && each.method === method)
    .find((each) => each.url === url && each.client === client);

/** Lets arrow keys, Home and End move to another row, and to its details if the details are open. Escape closes them. */
function useArrowKeys(page: Page, body: { current: HTMLElement | null }): void {
  useEffect(() => {
    function move(event: KeyboardEvent): void {
      const { activeElement: focused } = document;
      const { request } = page.state.route;
      if (event.key === 'Escape' && request !== undefined && !focused?.closest('dialog, form, input')) {
        closeDetails(page);
        return;
      }
      const buttons = [...(body.current?.querySelectorAll('button') ?? [])];
      const index = buttons.indexOf(focused as HTMLButtonElement);
      const steps: Record<string, number> = {
        ArrowDown: index + 1,
        ArrowUp: index - 1,
        Home: 0,
        End: buttons.length - 1,
      };
      const next = buttons[Math.max(0, steps[event.key] ?? Number.NaN)];
      if (next === undefined || (index === -1 && focused !== document.body)) return;
      event.preventDefault();
      next.focus();
      if (request !== undefined) page.go({ request: Number(next.dataset['number']) }, true);
    }
    addEventListener('keydown', move);
    return () => removeEventListener('keydown', move);
  }, []);
}

type RequestRowProps = { request: ListedRequest; isOpened: boolean; isInTabOrder: boolean };

const RequestRow = ({ request, isOpened, isInTabOrder }: RequestRowProps) =>
  // The list can have many rows, most of which are the same as before.
  useMemo(() => {
    const { time, method, url, keyName, milliseconds } = request;
    const target = (
      <>
        <b>{escapeAndShorten(method)}</b> <bdi>{escapeAndShorten(url)}</bdi>
      </>
    );
    const button = isLogged(request) && (
      <button
        type="button"
        class="link"
        data-number={request.number}
        aria-expanded={isOpened}
        aria-controls="details"
        tabIndex={isInTabOrder ? 0 : -1}
      >
        {target}
      </button>
    );
    return (
      <Row
        class={`${isLogged(request) ? statusKind(request) : 'running'}${isOpened ? ' opened' : ''}`}
        cells={{
          Time: (
            <time dateTime={time} title={time}>
              {localTime(time)}
            </time>
          ),
          Request: button || <span class="link">{target}</span>,
          Reason: isLogged(request) ? <Reason request={request} /> : 'running: there is no response yet',
          Key: keyName === undefined ? '–' : <bdi>{escapeAndShorten(keyName)}</bdi>,
          Duration: durationText(milliseconds),
        }}
      />
    );
  }, [request, isOpened, isInTabOrder]);

function OtherOriginsNote({ requests, origin, time }: UnrecordedRequests) {
  // Clients choose the text of the origin. A page that was opened from a file has the origin `null`.
  const isUsable = /^https?:/.test(origin) && URL.canParse(origin) && new URL(origin).origin === origin;
  return (
    <p class="note">
      {formatCount(requests, 'request')} that any web page can send {requests === 1 ? 'was' : 'were'} not
      recorded, the last one at {formatTime(time, new Date())} from the origin{' '}
      <code>{escapeAndShorten(origin)}</code>.
      {isUsable && (
        <>
          {' '}
          To let its pages call the service, start it with <code>--cors {quote(origin)}</code>.
        </>
      )}
    </p>
  );
}

function EmptyList({ hasRequests }: { hasRequests: boolean }) {
  if (hasRequests) return <p class="note">No request matches the filters.</p>;
  const url = `${serviceUrl()}/v1`;
  const commands = `PETS_BASE_URL=${quote(url)} pets list
curl -H "Authorization: Bearer $PETS_API_KEY" ${quote(`${url}/pets`)}`;
  return (
    <>
      <p>
        No requests yet. They appear here as soon as a client sends one. Put the API key that{' '}
        <code>pets serve</code> has printed into <code>PETS_API_KEY</code>, and try:
      </p>
      <Code label="Commands to try" text={commands} />
    </>
  );
}

const statuses = { '': 'All', ok: 'Successful', rejected: '4xx errors', failed: '5xx or no response' };

function FilterForm({ page }: { page: Page }) {
  const { log, route } = page.state;
  const { filter } = route;
  const set = (field: keyof RequestFilter, value: string, replaces = false) =>
    page.go({ filter: { ...filter, [field]: value } }, replaces);
  const select = (field: keyof RequestFilter, choices: Readonly<Record<string, string>>) => (
    <select
      name={field}
      value={filter[field]}
      onChange={({ currentTarget }) => set(field, currentTarget.value)}
    >
      {Object.entries(choices).map(([value, text]) => (
        <option key={value} value={value}>
          {escapeAndShorten(text)}
        </option>
      ))}
    </select>
  );
  /** The values that occur in the list, and the one that is chosen. */
  const found = (chosen: string, name: 'method' | 'keyName') => {
    const values = new Set([chosen, ...log.requests.map((each) => each[name] ?? '')]);
    const choices = [...values].filter(Boolean);
    return { '': 'All', ...Object.fromEntries(choices.map((value) => [value, value])) };
  };
  const withAnyStatus = log.requests.filter((each) => matchesFilter(each, { ...filter, status: '' }));
  return (
    <search aria-label="Filter the requests" class="toolbar">
      <fieldset class="buttons">
        <legend class="hidden-text">Status</legend>
        {Object.entries(statuses).map(([status, text]) => (
          <button
            key={status}
            type="button"
            class={`status ${status}`}
            aria-pressed={filter.status === status}
            onClick={() => set('status', status)}
          >
            {text}{' '}
            <b>
              {formatNumber(
                withAnyStatus.filter((each) => status === '' || statusKind(each) === status).length,
              )}
            </b>
          </button>
        ))}
      </fieldset>
      <Field label="Search" isWide>
        <input
          type="search"
          name="text"
          placeholder="Path, reason, header or body"
          autocomplete="off"
          spellcheck={false}
          maxLength={MAX_SEARCH_TEXT}
          value={filter.text}
          onInput={({ currentTarget }) => set('text', currentTarget.value, true)}
        />
      </Field>
      <Field label="Method">{select('method', found(filter.method, 'method'))}</Field>
      <Field label="Key">{select('key', found(filter.key, 'keyName'))}</Field>
      {Object.values(filter).some(Boolean) && (
        <button type="button" onClick={() => page.go({ filter: noFilter })}>
          Show all
        </button>
      )}
    </search>
  );
}
