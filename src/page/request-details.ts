import type { DescribedRequest, RequestSummary } from '../server/tools/log-entry.ts';
import { curlCommand } from './curl.ts';
import { element } from './element.ts';
import {
  durationText,
  formatBytes,
  formatUntil,
  longOutcome,
  requestKind,
  visibleLine,
  visibleText,
} from './format.ts';
import { layOutJson } from './json-layout.ts';
import { type PageContext, serverUrl } from './page-context.ts';
import { createProblem } from './problem.ts';
import { isBodyCutOff } from './recorded-body.ts';

/** The panel with the headers and bodies of one request. */
export function createDetails(context: PageContext, panel: HTMLElement) {
  let opener: HTMLElement | undefined;

  function setOpener(next: HTMLElement | undefined): void {
    opener?.setAttribute('aria-expanded', 'false');
    opener?.closest('tr')?.classList.remove('selected');
    opener = next;
    next?.setAttribute('aria-expanded', 'true');
    next?.closest('tr')?.classList.add('selected');
  }

  function close(): void {
    panel.hidden = true;
    const last = opener;
    setOpener(undefined);
    // The row may have left the list in the meantime.
    (last?.isConnected ? last : document.querySelector<HTMLElement>('#requests-view input'))?.focus();
  }

  panel.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') close();
  });

  return {
    async open(request: RequestSummary, button: HTMLElement): Promise<void> {
      setOpener(button);
      const problem = createProblem();
      const content = element('div', {}, element('p', { class: 'note' }, 'Loading…'));
      const heading = element(
        'h3',
        { tabindex: -1 },
        element('span', { class: `status ${requestKind(request)}` }, String(request.status)),
        ` ${visibleLine(request.method)} `,
        element('bdi', {}, visibleLine(request.url)),
      );
      const closeButton = element('button', { type: 'button', class: 'quiet', click: close }, 'Close');
      panel.replaceChildren(
        element('div', { class: 'details-head' }, heading, closeButton),
        problem.element,
        content,
      );
      panel.hidden = false;
      heading.focus();
      panel.scrollTop = 0;
      await problem.during(async () => {
        content.replaceChildren(...describe(request, await read(context, request)));
      });
    },
  };
}

/** Reads a whole request. Clients can choose ids, so find it among the latest requests with its id. */
async function read(
  context: PageContext,
  { id, time, url }: RequestSummary,
): Promise<DescribedRequest | undefined> {
  const { requests } = (await context.get(`requests?limit=50&id=${encodeURIComponent(id)}`)) as {
    requests: DescribedRequest[];
  };
  return requests.find((each) => each.id === id && each.time === time && each.url === url);
}

function describe(request: RequestSummary, whole: DescribedRequest | undefined): HTMLElement[] {
  const { id, time, milliseconds, client, keyName, operation, code } = request;
  const facts = definitions({
    Time: formatUntil(time, new Date(0)),
    Duration: durationText(milliseconds),
    Key: keyName ?? 'none',
    Client: client,
    Operation: operation ?? 'none',
    ...(code !== undefined && { Error: code }),
    'Request id': id,
  });
  const explanation = element('p', { class: 'explanation' }, longOutcome(request, new Date()));
  if (whole === undefined) {
    return [
      explanation,
      facts,
      element('p', { class: 'note' }, 'The service no longer has its headers and body.'),
    ];
  }
  return [
    explanation,
    facts,
    ...message('Request', whole.request),
    ...(whole.response ? message('Response', whole.response) : []),
    ...curl(whole),
  ];
}

/** Names and values. The values are any text. */
const definitions = (values: Readonly<Record<string, string>>): HTMLElement =>
  element(
    'dl',
    {},
    ...Object.entries(values).map(([name, value]) =>
      element(
        'div',
        {},
        element('dt', {}, element('bdi', {}, visibleLine(name))),
        element('dd', {}, element('bdi', {}, visibleText(value))),
      ),
    ),
  );

function message(title: string, content: DescribedRequest['request']): HTMLElement[] {
  const { headers, body } = content;
  return [
    element('h4', {}, title),
    element('p', { class: 'note' }, bodyNote(content)),
    body !== undefined &&
      code(
        `Body of the ${title.toLowerCase()}`,
        (isBodyCutOff(content) ? undefined : layOutJson(body)) ?? body,
      ),
    definitions(headers),
  ].filter((part) => part !== false);
}

function bodyNote(content: DescribedRequest['request']): string {
  const { body, bodyBytes } = content;
  if (bodyBytes === 0) return 'No body';
  const length = `Body of ${formatBytes(bodyBytes)}`;
  if (body === undefined) return `${length}, which is no longer recorded`;
  return isBodyCutOff(content) ? `${length}, of which only the beginning is recorded` : length;
}

/** A box of text that can be scrolled with the keyboard. */
export const code = (label: string, text: string): HTMLPreElement =>
  element('pre', { tabindex: 0, role: 'region', 'aria-label': label }, visibleText(text));

function curl(request: DescribedRequest): HTMLElement[] {
  const { command, notes } = curlCommand(request, serverUrl());
  const title = element('h4', {}, 'Send it again');
  const remarks = notes.map((note) => element('p', { class: 'note' }, visibleLine(note)));
  if (command === undefined) return [title, ...remarks];
  return [title, ...remarks, code('Command for curl', command), copyButton(command)];
}

function copyButton(text: string): HTMLElement {
  const button = element('button', { type: 'button' }, 'Copy');
  button.addEventListener('click', async () => {
    const isCopied = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    button.textContent = isCopied ? 'Copied' : 'The browser refused';
    setTimeout(() => (button.textContent = 'Copy'), 2_000);
  });
  return button;
}
