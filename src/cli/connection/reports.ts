import type { AttemptEvent } from '../../client/call.ts';
import type { Deprecation } from '../../client/response.ts';
import type { OperationName } from '../../contract/operations.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import type { CommandContext } from '../program/command.ts';

// What a client reports besides its waits: that an operation will be removed, and with --debug every attempt.

const DAY = 86_400_000;

/** Prints that the service will remove an operation, or that the announced date of its removal has passed. */
export function reportDeprecation(
  { console, clock }: CommandContext,
  { operation, sunset, link }: { operation: OperationName } & Deprecation,
): void {
  const now = clock.now();
  const day = sunset?.toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: 'UTC' });
  const days = sunset && Math.ceil((sunset.getTime() - now) / DAY);
  let when = days === undefined ? 'on a day that it has not announced' : `on ${day} (days left: ${days})`;
  if (days !== undefined && days <= 0) when = `soon (announced for ${day}, which has passed)`;
  const more = link === undefined ? '' : ` (see ${link})`;
  console.notice(
    operation === 'getPet'
      ? `the service will stop supporting requests for one animal ${when}${more}; pets get will then read the whole list`
      : `this command needs a request that the service will stop supporting ${when}${more}; look for a newer version of pets`,
  );
}

/** The maximum number of characters of a body that --debug prints. */
const MAX_BODY_SHOWN = 4_096;

/** Logs one attempt with its headers and the start of its bodies, for --debug. */
export function reportAttempt(
  { console }: CommandContext,
  { request, outcome, timings }: AttemptEvent,
  redact: (text: string) => string,
): void {
  const { method, url, headers: sent } = request;
  // The error code is left out, because the body contains it.
  const result =
    'response' in outcome ? { ...outcome.response, code: undefined } : { failure: String(outcome.error) };
  // Redact the API key before cutting the body, because a part of a key would not be recognized.
  const cut = (body = '') => redact(body).slice(0, MAX_BODY_SHOWN) || undefined;
  const bodies = { requestBody: cut(request.body), body: 'body' in result ? cut(result.body) : undefined };
  const lines = [
    `${method} ${url.href}`,
    ...messageLines('>', sent, bodies.requestBody),
    `${'status' in result ? result.status : `failed: ${result.failure}`} (${timingsText(timings)})`,
    ...('headers' in result ? messageLines('<', result.headers, bodies.body) : []),
  ];
  console.event(
    { debug: { method, url: url.href, times: timings, request: sent, ...result, ...bodies } },
    console.errorColors.dim(lines.map(sanitizeForTerminal).join('\n')),
  );
}

/** The lines of the headers and, after an empty line, those of a body if there is one. Each line starts with `mark`. */
function messageLines(mark: string, headers: object, body: string | undefined): string[] {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const lines = body === undefined ? fields : [...fields, '', ...body.trimEnd().split(/\r?\n/)];
  return lines.map((line) => `  ${mark} ${line}`);
}

function timingsText({ connected, firstByte, whole }: AttemptEvent['timings']): string {
  const steps = { connected, 'first byte': firstByte, complete: whole };
  return Object.entries(steps)
    .filter(([, time]) => time !== undefined)
    .map(([step, time]) => `${step} ${time} ms`)
    .join(', ');
}
