import { header } from '../../contract/headers.ts';
import { planNames, plans } from '../../contract/plans.ts';

/** The general part of the service's description, in Markdown. */
export const introduction =
  (): string => `An inventory of animals: list them, filter them by availability, add one.

## Authentication

Every request needs an API key: \`${header.authorization}: Bearer <API_KEY>\`. A missing or invalid key gets 401.

## Rate limits

Requests are counted per API key, in windows that start with the UTC minute and the UTC day:

${planTable()}

Every response reports the window with fewer requests left: \`${header.rateLimit}\`, \`${header.rateLimitRemaining}\` and
\`${header.rateLimitReset}\` (a Unix timestamp). Pages of animals report both windows, in \`${header.rateLimitPolicy}\` and
\`${header.rateLimitWindows}\`. Requests over the limit get 429: wait for the seconds in
\`${header.retryAfter}\`, and use exponential backoff. Continuing to send requests after a 429 can ban the API key
temporarily: 429 with the code \`key_banned\`, and \`${header.retryAfter}\` until the end of the ban.

## Repeating a creation

A creation with an \`${header.idempotencyKey}\` can be repeated for 24 hours: the same key with the same body gets the first
response again, with \`${header.idempotencyReplayed}: true\`, and adds nothing. The same key with another body gets 422, or 409
while the first request is still running. A service that supports the header sends \`${header.idempotencySupported}: true\`.

## Pages

Lists are paginated in ascending order of id. \`${header.link}\` with \`rel="next"\` is the address of the next page; the last
page has none. Animals that are added during pagination do not repeat or hide others.

## Deprecation

The responses of a deprecated operation have \`${header.deprecation}\`, \`${header.sunset}\` (the time of its removal) and
\`${header.link}\` with \`rel="successor-version"\`. After its removal the operation gets 410.

## Reading and writing JSON

Identifiers are 64-bit integers: parsers that use doubles lose digits above 2^53. Responses may have fields that are not
described here; unknown fields of requests are ignored.
`;

function planTable(): string {
  const rows = planNames.map((name) => {
    const { perMinute, perDay } = plans[name];
    // Enterprise quotas are agreed for each API key. The quotas in `plans` are only defaults.
    const quota =
      name === 'enterprise'
        ? ['custom', 'custom']
        : [perMinute, perDay].map((count) => count.toLocaleString('en-US'));
    return `| ${[`${name.charAt(0).toUpperCase()}${name.slice(1)}`, ...quota].join(' | ')} |`;
  });
  return ['| Plan | Requests per minute | Requests per day |', '|---|---|---|', ...rows].join('\n');
}
