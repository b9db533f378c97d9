import type { AttemptEvent } from '../../client/call.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import type { CommandContext } from '../program/command.ts';

/** The maximum number of characters of a body that --debug prints. */
const MAX_BODY_SHOWN = 4_096;

/** Logs one attempt with its headers and the start of its bodies, for --debug. */
export function reportAttempt(
  { console }: CommandContext,
  { request, outcome, milliseconds }: AttemptEvent,
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
    `${'status' in result ? result.status : `failed: ${result.failure}`} (${milliseconds} ms)`,
    ...('headers' in result ? messageLines('<', result.headers, bodies.body) : []),
  ];
  console.event(
    { debug: { method, url: url.href, milliseconds, request: sent, ...result, ...bodies } },
    console.errorColors.dim(lines.map(sanitizeForTerminal).join('\n')),
  );
}

/** The lines of the headers and, after an empty line, those of a body if there is one. Each line starts with `mark`. */
function messageLines(mark: string, headers: object, body: string | undefined): string[] {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const lines = body === undefined ? fields : [...fields, '', ...body.trimEnd().split(/\r?\n/)];
  return lines.map((line) => `  ${mark} ${line}`);
}
