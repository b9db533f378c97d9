import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { curlCommand } from './curl.ts';
import { matchOf, nextFaults } from './faults.ts';
import { Definitions, Field, ServerText } from './parts.tsx';
import { type Page, serviceUrl } from './state.ts';
import {
  escapeAndShorten,
  escapeInvisible,
  formatCount,
  formatMilliseconds,
  formatNumber,
  formatTime,
  type LoggedRequest,
  layOutJson,
  reasonText,
  statusKind,
  type WholeRequest,
} from './text.ts';

export const Status = ({ request }: { request: LoggedRequest }) => (
  <b class={statusKind(request)}>{request.status ?? 'none'}</b>
);

/** Why a request has its status, with links to the rule and to the other request that are part of the reason. */
export function Reason({ request, because }: { request: LoggedRequest; because: string }) {
  const { rule, again, outcome } = request;
  // If a rule decided the status, the link says so.
  const text = rule !== undefined && outcome === 'injected_fault' ? '' : because;
  return (
    <>
      <ServerText text={escapeAndShorten(reasonText({ ...request, because: text }, new Date()))} />{' '}
      {rule !== undefined && <a href="#faults">fault rule {rule}</a>}
      {again !== undefined && <a href={`#requests?request=${again}`}>request {again}, sent again</a>}
    </>
  );
}

export const focusDetails = (): void => document.getElementById('details-title')?.focus();

/** Closes the details. Moves the focus to the row of the request, or to the search if the row has left the list. */
export function closeDetails(page: Page): void {
  const row = document.querySelector<HTMLElement>(`[data-number="${page.state.route.request}"]`);
  page.go({ request: undefined });
  (row ?? document.querySelector<HTMLElement>('[type="search"]'))?.focus();
}

/** The panel with the reason of one request, what can be done with it, and its bodies and headers. */
export function RequestDetails({ page, number }: { page: Page; number: number }) {
  const [whole, setWhole] = useState<WholeRequest | string>();
  useEffect(() => {
    const found = page.server.send('GET', `requests?number=${number}`);
    (found as Promise<{ requests: WholeRequest[] }>).then(
      ({ requests }) => setWhole(requests[0] ?? 'The service has no record of this request'),
      (error: Error) => setWhole(error.message),
    );
  }, []);
  const request = typeof whole === 'object' ? whole : undefined;
  return (
    <section id="details" aria-label="Details of the request">
      <div class="details-head">
        <h2 id="details-title" tabIndex={-1}>
          {escapeAndShorten(request?.method ?? 'Request')}{' '}
          <bdi>{escapeAndShorten(request?.url ?? String(number))}</bdi>
        </h2>
        <button type="button" onClick={() => closeDetails(page)}>
          Close
        </button>
      </div>
      {typeof whole === 'string' && <p class="note">{escapeInvisible(whole)}</p>}
      {request && <Content page={page} whole={request} />}
    </section>
  );
}

function Content({ page, whole }: { page: Page; whole: WholeRequest }) {
  const { number, id, time, milliseconds, client, keyName, operation, code, outcome } = whole;
  const { request, response } = whole;
  const match = matchOf(whole);
  return (
    <>
      <p>
        <Status request={whole} /> <Reason request={whole} because={whole.because} />
      </p>
      <SendAgain page={page} whole={whole}>
        <button type="button" onClick={() => page.act(() => copyAsCurl(whole))}>
          Copy as curl
        </button>
        {Object.entries(match ? nextFaults(match) : {}).map(([label, rule]) => (
          <button key={label} type="button" onClick={() => page.act(() => page.addRule(rule))}>
            {label}
          </button>
        ))}
      </SendAgain>
      {outcome === 'banned' && (
        <p class="note">
          You can lift a ban under <a href="#keys">Keys</a>.
        </p>
      )}
      <Body title="Request" content={request} />
      {response && <Body title="Response" content={response} />}
      <h3>Headers of the request</h3>
      <Definitions values={request.headers} />
      {response && <h3>Headers of the response</h3>}
      {response && <Definitions values={response.headers} />}
      <h3>About the request</h3>
      <Definitions
        values={{
          Number: formatNumber(number),
          Time: formatTime(time, new Date(0)),
          Duration: formatMilliseconds(milliseconds),
          Key: keyName ?? 'no accepted key',
          Client: client,
          Operation: operation ?? 'none',
          ...(code !== undefined && { Error: code }),
          'Request id': id,
        }}
      />
    </>
  );
}

function Body({ title, content }: { title: string; content: WholeRequest['request'] }) {
  const { body, bodyBytes, cutOff } = content;
  const size = bodyBytes === 0 ? 'no body' : formatCount(bodyBytes, 'byte');
  return (
    <>
      <h3>
        {title} <span class="note">{cutOff ? `${size} or more; only the beginning is recorded` : size}</span>
      </h3>
      {body !== undefined && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: without it, the keyboard cannot scroll the box.
        <pre tabIndex={0} role="region" aria-label={`Body of the ${title.toLowerCase()}`}>
          {escapeInvisible((cutOff ? undefined : layOutJson(body)) ?? body)}
        </pre>
      )}
    </>
  );
}

/** How long a request that is sent again blocks other actions of the page. Its response may be delayed by minutes. */
const MAX_WAIT_MS = 5_000;

type SendAgainProps = { page: Page; whole: WholeRequest; children: ComponentChildren };

/** A button that sends the request again, beside `children`. Unless it is a GET or HEAD without a body, a form opens first. */
function SendAgain({ page, whole, children }: SendAgainProps) {
  const { number, method, operation, notAgain, request } = whole;
  const [draft, setDraft] = useState<string>();
  const form = useRef<HTMLFormElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  useLayoutEffect(
    () => form.current?.querySelector<HTMLElement>('textarea, button')?.focus(),
    [draft === undefined],
  );
  const needsForm = request.bodyBytes > 0 || (method !== 'GET' && method !== 'HEAD');
  const original = layOutJson(request.body ?? '') ?? request.body ?? '';

  const send = () =>
    page.act(async () => {
      // An unchanged body is left out: the server sends the recorded one, white space included.
      const body = draft === original ? undefined : draft;
      const response = page.server.send('POST', 'requests', JSON.stringify({ number, body }));
      const sent = await Promise.race([response, new Promise((resolve) => setTimeout(resolve, MAX_WAIT_MS))]);
      if (sent === undefined) return 'The request was sent again, and has no response yet';
      page.go({ request: (sent as LoggedRequest).number });
      focusDetails();
      return 'The request was sent again';
    });

  return (
    <>
      <div class="toolbar">
        <button
          ref={opener}
          type="button"
          class="primary"
          disabled={notAgain !== undefined}
          aria-describedby={notAgain === undefined ? undefined : 'not-again'}
          onClick={() => (needsForm ? setDraft(original) : send())}
        >
          Send again
        </button>
        {children}
      </div>
      {notAgain !== undefined && (
        <p id="not-again" class="note">
          Cannot be sent again: {escapeInvisible(notAgain)}
        </p>
      )}
      {draft !== undefined && (
        <form
          ref={form}
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
        >
          {operation === 'createPet' && <p>This can add an animal.</p>}
          {request.bodyBytes > 0 && (
            <Field label="Body">
              <textarea
                name="body"
                rows={12}
                spellcheck={false}
                value={draft}
                onInput={({ currentTarget }) => setDraft(currentTarget.value)}
              />
            </Field>
          )}
          <div class="toolbar">
            <button type="submit" class="primary">
              Send
            </button>
            <button
              type="button"
              onClick={() => {
                setDraft(undefined);
                opener.current?.focus();
              }}
            >
              Cancel
            </button>
          </div>
        </form>
      )}
    </>
  );
}

/**
 * Copies a command for curl. Returns a message that says what differs from the request.
 *
 * @throws Error with a message for the user, or the error of the browser if it does not let the page copy
 */
async function copyAsCurl(whole: WholeRequest): Promise<string> {
  const { command, notes } = curlCommand(whole, serviceUrl());
  if (command === undefined) throw new Error(notes.join(' '));
  // Pages over plain HTTP cannot copy, except those of this machine.
  if (!isSecureContext) throw new Error('Browsers let only pages over HTTPS, or on this machine, copy text');
  await navigator.clipboard.writeText(command);
  return ['The command is copied.', ...notes].join(' ');
}
