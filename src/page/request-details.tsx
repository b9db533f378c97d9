import { useEffect, useRef, useState } from 'preact/hooks';
import type { LoggedRequest, WholeRequest } from './api-types.ts';
import { curlCommand } from './curl.ts';
import { matchOf } from './faults.ts';
import { NextFaultButtons } from './faults-view.tsx';
import { Code, Definitions, Problem, useAttempt } from './parts.tsx';
import type { Page } from './state.ts';
import {
  durationText,
  escapeAndShorten,
  escapeInvisible,
  formatBytes,
  formatNumber,
  formatTime,
  layOutJson,
  reasonText,
  statusKind,
} from './text.ts';
import { serviceUrl } from './tools-client.ts';

/** Why a request has its status, and the rule and the other request that are part of the reason. */
export const Reason = ({ request, because }: { request: LoggedRequest; because: string }) => (
  <>
    {escapeAndShorten(reasonText({ ...request, because }, new Date()))}
    {request.rule !== undefined && (
      <>
        {' · '}
        <a href="#faults">rule {request.rule}</a>
      </>
    )}
    {request.ignored !== undefined && ` · ignored: Prefer: ${escapeAndShorten(request.ignored)}`}
    {request.again !== undefined && (
      <>
        {' · '}
        <a href={`#requests?request=${request.again}`}>request {request.again}</a> again
      </>
    )}
  </>
);

export const statusOf = ({ status }: LoggedRequest): string => String(status ?? 'no response');

export const focusDetails = (): void => document.getElementById('details-title')?.focus();

/** Closes the details. Moves the focus to the row of the request, or to the search if the row has left the list. */
export function closeDetails(page: Page): void {
  const row = `button[data-number="${page.state.route.request}"]`;
  page.go({ request: undefined });
  (document.querySelector<HTMLElement>(row) ?? document.querySelector<HTMLElement>('[name="text"]'))?.focus();
}

/** The panel with the reason of one request, what can be done with it, and its headers and bodies. */
export function RequestDetails({ page, number }: { page: Page; number: number }) {
  const [whole, setWhole] = useState<WholeRequest | 'missing'>();
  const { problem, attempt } = useAttempt();
  useEffect(() => {
    attempt(async () => {
      const { requests } = (await page.server.get(`requests?number=${number}`)) as {
        requests: WholeRequest[];
      };
      setWhole(requests[0] ?? 'missing');
    });
  }, []);
  const listed = page.state.log.requests.find((each) => each.number === number);
  const request = typeof whole === 'object' ? whole : listed;
  return (
    <section id="details" aria-label="Details of the request">
      <div class="details-head">
        <h3 id="details-title" tabIndex={-1}>
          {request === undefined ? (
            `Request ${number}`
          ) : (
            <>
              {escapeAndShorten(request.method)} <bdi>{escapeAndShorten(request.url)}</bdi>
            </>
          )}
        </h3>
        <button type="button" onClick={() => closeDetails(page)}>
          Close
        </button>
      </div>
      {request && (
        <p>
          <b class={`status ${statusKind(request)}`}>{statusOf(request)}</b>{' '}
          <Reason request={request} because={request.because} />
        </p>
      )}
      <Problem text={problem} />
      {whole === 'missing' && <p class="note">The service no longer has this request.</p>}
      {typeof whole === 'object' && <Content page={page} whole={whole} />}
    </section>
  );
}

function Content({ page, whole }: { page: Page; whole: WholeRequest }) {
  const { number, id, time, milliseconds, client, keyName, operation, code, outcome } = whole;
  const { request, response } = whole;
  const curl = curlCommand(whole, serviceUrl());
  return (
    <>
      <div class="actions">
        <SendAgain page={page} whole={whole} />
        {curl.command !== undefined && <CopyButton text={curl.command} />}
        <NextFaultButtons page={page} match={matchOf(whole)} />
        {outcome === 'banned' && (
          <p class="note">
            <a href="#keys">Keys</a> can lift the ban.
          </p>
        )}
        {curl.notes.map((note) => (
          <p key={note} class="note">
            About the command for curl: {escapeAndShorten(note)}
          </p>
        ))}
      </div>
      <Body title="Request" content={request} />
      {response && <Body title="Response" content={response} />}
      <h4>Headers of the request</h4>
      <Definitions values={request.headers} />
      {response && (
        <>
          <h4>Headers of the response</h4>
          <Definitions values={response.headers} />
        </>
      )}
      <h4>About the request</h4>
      <Definitions
        values={{
          Number: formatNumber(number),
          Time: formatTime(time, new Date(0)),
          Duration: durationText(milliseconds),
          Key: keyName ?? 'no accepted key',
          Client: client,
          Operation: operation ?? 'unknown path',
          ...(code !== undefined && { Error: code }),
          'Request id': id,
        }}
      />
    </>
  );
}

function Body({ title, content }: { title: string; content: WholeRequest['request'] }) {
  const { body, bodyBytes, cutOff } = content;
  const size = bodyBytes === 0 ? 'no body' : formatBytes(bodyBytes);
  return (
    <>
      <h4>
        {title} <span class="note">{cutOff ? `${size}, of which only the beginning is recorded` : size}</span>
      </h4>
      {body !== undefined && (
        <Code
          label={`Body of the ${title.toLowerCase()}`}
          text={(cutOff ? undefined : layOutJson(body)) ?? body}
        />
      )}
    </>
  );
}

/** A button that sends a request again. Except for a GET or HEAD without a body, the button opens a form first. */
function SendAgain({ page, whole }: { page: Page; whole: WholeRequest }) {
  const { number, method, operation, notAgain, request } = whole;
  const { problem, attempt } = useAttempt();
  const [draft, setDraft] = useState<string>();
  const form = useRef<HTMLFormElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  useEffect(
    () => form.current?.querySelector<HTMLElement>('textarea, button')?.focus(),
    [draft === undefined],
  );
  function cancel(): void {
    setDraft(undefined);
    opener.current?.focus();
  }
  const needsForm = request.bodyBytes > 0 || (method !== 'GET' && method !== 'HEAD');
  const original = layOutJson(request.body ?? '') ?? request.body ?? '';

  const send = () =>
    attempt(async () => {
      // An unchanged body is left out: the server sends the recorded one, white space included.
      const body = draft === original ? undefined : draft;
      const sent = await page.server.send('POST', 'requests', JSON.stringify({ number, body }));
      // If the request still runs, the response has no entry of the log.
      page.go({ request: (sent as Partial<LoggedRequest>).number ?? number });
      focusDetails();
    });

  return (
    <div class="action">
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
          {operation === 'createPet' && <p>This adds an animal if the body is valid.</p>}
          {request.bodyBytes > 0 && (
            <label class="field">
              <span>Body</span>
              <textarea
                name="body"
                rows={Math.min(12, draft.split('\n').length + 2)}
                spellcheck={false}
                value={draft}
                onInput={({ currentTarget }) => setDraft(currentTarget.value)}
              />
            </label>
          )}
          <div class="buttons">
            <button type="submit" class="primary">
              {operation === 'createPet' ? 'Send, and add an animal' : 'Send'}
            </button>
            <button type="button" onClick={cancel}>
              Cancel
            </button>
          </div>
        </form>
      )}
      <Problem text={problem} />
    </div>
  );
}

function CopyButton({ text }: { text: string }) {
  const [label, setLabel] = useState('Copy as curl');
  function copy(): void {
    setLabel(copyText(text) ? 'Copied' : 'The browser refused');
    setTimeout(() => setLabel('Copy as curl'), 2_000);
  }
  return (
    <button type="button" onClick={copy}>
      {label}
    </button>
  );
}

/**
 * Copies a text. Returns whether the browser allowed it. Pages over plain HTTP have no `navigator.clipboard`, except those of
 * this machine.
 */
function copyText(text: string): boolean {
  const field = document.createElement('textarea');
  const { activeElement } = document;
  field.value = text;
  field.className = 'hidden-text';
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand('copy');
  field.remove();
  (activeElement as HTMLElement | null)?.focus();
  return isCopied;
}
