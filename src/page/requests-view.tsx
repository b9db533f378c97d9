import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import type { LoggedRequest, RunningRequest } from './api-types.ts';
import { quote } from './curl.ts';
import { Code, Field, Problem, Row, Table, useAttempt } from './parts.tsx';
import { closeDetails, focusDetails, Reason, RequestDetails, statusOf } from './request-details.tsx';
import { MAX_REQUESTS, MAX_SEARCH_TEXT, matchesFilter, noFilter, type RequestFilter } from './request-log.ts';
import type { Page } from './state.ts';
import { durationText, escapeAndShorten, formatNumber, localTime, statusKind } from './text.ts';
import { serviceUrl } from './tools-client.ts';

type ListedRequest = LoggedRequest | RunningRequest;

const isLogged = (request: ListedRequest): request is LoggedRequest => 'number' in request;

/** The list of requests, its filters, and the details of one request. */
export function RequestsView({ page }: { page: Page }) {
  const { log, route } = page.state;
  const { filter, request: opened } = route;
  const shown = [...log.running, ...log.requests].filter((each) => matchesFilter(each, filter));
  const body = useRef<HTMLTableSectionElement>(null);
  useArrowKeys(page, body);
  const isOpenedShown = shown.some((each) => isLogged(each) && each.number === opened);
  const firstInTabOrder = isOpenedShown ? opened : shown.find(isLogged)?.number;
  // The opened row can be far below, and rows have another height beside the details.
  useLayoutEffect(
    () => body.current?.querySelector('.opened')?.scrollIntoView({ block: 'nearest' }),
    [opened, isOpenedShown],
  );

  /** Opens the request whose row was clicked, unless the click was on a link or ended the selection of a text. */
  function open({ target, currentTarget, detail }: MouseEvent): void {
    const button = (target as Element).closest('tr')?.querySelector('button');
    const isSelecting = detail > 0 && getSelection()?.isCollapsed === false;
    if (!button || isSelecting || (target as Element).closest('a')) return;
    page.go({ request: Number(button.dataset['number']) });
    // Focus the details after a click by the keyboard (without `detail`), and if they now take the place of the list.
    if (detail === 0 || !(currentTarget as Element).checkVisibility()) focusDetails();
  }

  return (
    <section id="requests-view" aria-labelledby="requests-title">
      <div id="requests-list">
        <h2 id="requests-title">Requests</h2>
        <FilterForm page={page} />
        <Table
          caption="Requests, the newest first"
          columns={['Time', 'Status', 'Request', 'Reason', 'Key', 'Duration']}
        >
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: each row has a button, whose clicks by the keyboard arrive here. */}
          <tbody ref={body} role="rowgroup" onClick={open}>
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
        {shown.length === 0 && log.cursor !== '' && (
          <EmptyList hasRequests={log.requests.length > 0 || filter.text !== ''} />
        )}
      </div>
      {opened !== undefined && <RequestDetails key={opened} page={page} number={opened} />}
    </section>
  );
}

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
    const logged = isLogged(request) ? request : undefined;
    const kind = logged ? statusKind(logged) : 'running';
    const target = (
      <>
        <b>{escapeAndShorten(method)}</b> <bdi>{escapeAndShorten(url)}</bdi>
      </>
    );
    const button = logged && (
      <button
        type="button"
        class="link"
        data-number={logged.number}
        aria-expanded={isOpened}
        aria-controls="details"
        tabIndex={isInTabOrder ? 0 : -1}
      >
        {target}
      </button>
    );
    return (
      <Row
        class={`${kind}${isOpened ? ' opened' : ''}`}
        cells={{
          Time: (
            <time dateTime={time} title={time}>
              {localTime(time)}
            </time>
          ),
          Status: logged && <b class={`status ${kind}`}>{statusOf(logged)}</b>,
          Request: button || <span class="link">{target}</span>,
          Reason: logged ? (
            <Reason request={logged} because={isOrdinary(logged) ? '' : logged.because} />
          ) : (
            'running: there is no response yet'
          ),
          Key: keyName === undefined ? '–' : <bdi>{escapeAndShorten(keyName)}</bdi>,
          Duration: durationText(milliseconds),
        }}
      />
    );
  }, [request, isOpened, isInTabOrder]);

/** Whether the reason is the same as that of most requests. */
const isOrdinary = (request: LoggedRequest): boolean =>
  request.outcome === 'counted' && request.foreignOrigin === undefined && statusKind(request) === 'ok';

function EmptyList({ hasRequests }: { hasRequests: boolean }) {
  if (hasRequests) return <p>No request matches the filters.</p>;
  const url = `${serviceUrl()}/v1`;
  const commands = `PETS_BASE_URL=${quote(url)} pets list
curl -H "Authorization: Bearer $PETS_API_KEY" ${quote(`${url}/pets`)}`;
  return (
    <>
      <p>
        No requests yet. The last {formatNumber(MAX_REQUESTS)} appear here, as soon as a client sends them.
        Put the API key that <code>pets serve</code> has printed into <code>PETS_API_KEY</code>, and try:
      </p>
      <Code label="Commands to try" text={commands} />
    </>
  );
}

const statuses = { '': 'All', ok: 'Successful', rejected: '4xx errors', failed: '5xx or no response' };

function FilterForm({ page }: { page: Page }) {
  const { log, route, isPaused } = page.state;
  const { filter } = route;
  const { problem, attempt } = useAttempt();
  const search = useRef<HTMLInputElement>(null);
  function showAll(): void {
    page.go({ filter: noFilter });
    // The button is gone now.
    search.current?.focus();
  }
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
          ref={search}
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
        <button type="button" onClick={showAll}>
          Show all
        </button>
      )}
      <button type="button" aria-pressed={isPaused} onClick={() => page.pause(!isPaused)}>
        Pause
      </button>
      <button type="button" onClick={() => attempt(page.clear)}>
        Clear
      </button>
      <Problem text={problem} />
    </search>
  );
}
