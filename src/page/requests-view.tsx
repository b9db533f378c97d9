import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { MAX_RECORDED_REQUESTS } from '../contract/recorded-text.ts';
import { Field, Row, Table } from './parts.tsx';
import { closeDetails, focusDetails, Reason, RequestDetails, Status } from './request-details.tsx';
import { MAX_SEARCH_TEXT } from './requests.ts';
import type { Page } from './state.ts';
import {
  escapeAndShorten,
  formatMilliseconds,
  formatNumber,
  type LoggedRequest,
  localTime,
  statusKind,
} from './text.ts';

/** The list of requests, its filters, and the details of one request. */
export function RequestsView({ page }: { page: Page }) {
  const { log, route } = page.state;
  const { status, request: opened } = route;
  const shown = log.requests.filter((request) => status === '' || statusKind(request) === status);
  const list = useRef<HTMLDivElement>(null);
  useArrowKeys(page, list);
  const isOpenedShown = shown.some(({ number }) => number === opened);
  const inTabOrder = isOpenedShown ? opened : shown[0]?.number;
  // The opened row can be far below, and all rows can change their height when the details open.
  useLayoutEffect(
    () => list.current?.querySelector('.opened')?.scrollIntoView({ block: 'nearest' }),
    [opened, isOpenedShown],
  );
  const open = (number: number, isByKeyboard: boolean) => {
    page.go({ request: number });
    // On narrow screens, the details take the place of the list.
    if (isByKeyboard || !list.current?.checkVisibility()) focusDetails();
  };
  return (
    <section id="requests-view" aria-labelledby="requests-title">
      <div id="requests-list" ref={list}>
        <h2 id="requests-title">Requests</h2>
        <FilterForm page={page} />
        <Table
          caption="Requests, the newest first"
          columns={['Status', 'Request', 'Time', 'Duration', 'Reason', 'Key']}
        >
          {shown.map((request) => (
            <RequestRow
              key={request.number}
              request={request}
              isOpened={request.number === opened}
              isInTabOrder={request.number === inTabOrder}
              open={open}
            />
          ))}
        </Table>
        {shown.length === 0 && log.cursor !== '' && (
          <p>
            {log.requests.length > 0 || route.text !== ''
              ? 'No request matches the filters.'
              : `The list is empty. Unless it is paused, it shows up to ${formatNumber(MAX_RECORDED_REQUESTS)} requests.`}
          </p>
        )}
      </div>
      {opened !== undefined && <RequestDetails key={opened} page={page} number={opened} />}
    </section>
  );
}

/** Lets arrow keys move to another row, and to its details if the details are open. Escape closes them. */
function useArrowKeys(page: Page, list: { current: HTMLElement | null }): void {
  useEffect(() => {
    function onKeyDown(event: KeyboardEvent): void {
      const { key } = event;
      const { activeElement: focused } = document;
      const { request } = page.state.route;
      if (key === 'Escape' && request !== undefined && !focused?.closest('form, input')) closeDetails(page);
      const buttons = [...(list.current?.querySelectorAll<HTMLElement>('button.link') ?? [])];
      const index = buttons.indexOf(focused as HTMLElement);
      const next = buttons[index + (key === 'ArrowDown' ? 1 : -1)];
      if (!/^Arrow(?:Up|Down)$/.test(key) || index === -1 || next === undefined) return;
      event.preventDefault();
      next.focus();
      if (request !== undefined) page.go({ request: Number(next.dataset['number']) }, true);
    }
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, []);
}

type RequestRowProps = {
  request: LoggedRequest;
  isOpened: boolean;
  isInTabOrder: boolean;
  open(number: number, isByKeyboard: boolean): void;
};

const RequestRow = ({ request, isOpened, isInTabOrder, open }: RequestRowProps) =>
  // The list can have many rows, most of which are the same as before.
  useMemo(() => {
    const { number, time, method, url, keyName, milliseconds, outcome, foreignOrigin } = request;
    const kind = statusKind(request);
    // The list leaves out the reason that most requests have.
    const isOrdinary = outcome === 'counted' && kind === 'ok' && foreignOrigin === undefined;
    return (
      <Row
        class={`${kind} ${isOpened ? 'opened' : ''} ${foreignOrigin === undefined ? '' : 'muted'}`}
        cells={{
          Status: <Status request={request} />,
          Request: (
            <button
              type="button"
              class="link"
              data-number={number}
              aria-expanded={isOpened}
              aria-controls="details"
              tabIndex={isInTabOrder ? 0 : -1}
              onClick={({ detail }) => open(number, detail === 0)}
            >
              <b>{escapeAndShorten(method)}</b> <bdi>{escapeAndShorten(url)}</bdi>
            </button>
          ),
          Time: localTime(time),
          Duration: formatMilliseconds(milliseconds),
          Reason: <Reason request={request} because={isOrdinary ? '' : request.because} />,
          Key: keyName === undefined ? '–' : <bdi>{escapeAndShorten(keyName)}</bdi>,
        }}
      />
    );
  }, [request, isOpened, isInTabOrder]);

const statuses = { '': 'All', ok: 'Successful', rejected: '4xx errors', failed: '5xx or no response' };

function FilterForm({ page }: { page: Page }) {
  const { log, route, isPaused } = page.state;
  const count = (status: string) =>
    log.requests.filter((request) => status === '' || statusKind(request) === status).length;
  return (
    <search aria-label="Filter the requests" class="toolbar">
      {Object.entries(statuses).map(([status, text]) => (
        <button
          key={status}
          type="button"
          class={status}
          aria-pressed={route.status === status}
          onClick={() => page.go({ status })}
        >
          {text} <b>{formatNumber(count(status))}</b>
        </button>
      ))}
      <Field label="Search">
        <input
          type="search"
          placeholder="Method, path, key, reason, header or body"
          autocomplete="off"
          spellcheck={false}
          maxLength={MAX_SEARCH_TEXT}
          value={route.text}
          onInput={({ currentTarget }) => page.go({ text: currentTarget.value }, true)}
        />
      </Field>
      <button type="button" aria-pressed={isPaused} onClick={() => page.update({ isPaused: !isPaused })}>
        Pause
      </button>
      <button type="button" onClick={() => page.act(page.clear)}>
        Clear
      </button>
    </search>
  );
}
