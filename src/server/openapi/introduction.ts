import { header } from '../../contract/headers.ts';
import { planNames, plans } from '../../contract/plans.ts';

/** What a reader should know before the operations, in Markdown. */
export const description =
  (): string => `An inventory of animals: list them, filter them by availability, add one.

## Authentication

Every request carries an API key: \`${header.authorization}: Bearer <API_KEY>\`. Without a valid one the answer is 401.

## Rate limits

Requests are counted per API key, in windows that begin with the UTC minute and the UTC day:

${planTable()}

Every response tells the window with fewer requests left: \`${header.rateLimit}\`, \`${header.rateLimitRemaining}\` and
\`${header.rateLimitReset}\` (a Unix timestamp). Above the limit the answer is 429; wait as long as \`${header.retryAfter}\`
says, in seconds, and back off exponentially. Who keeps sending after a 429 may have the API key banned for a time: 429
with the code \`key_banned\`, and \`${header.retryAfter}\` until the end of the ban.

## Repeating a creation

A creation with an \`${header.idempotencyKey}\` can be sent again, for 24 hours: the same key with the same body gets the
first answer, with \`${header.idempotencyReplayed}: true\`, and adds nothing. The same key with another body is 422, and 409
while the first request is still running. A service that knows the header says \`${header.idempotencySupported}: true\`.

## Pages

A list is answered a page at a time, in ascending order of ids. \`${header.link}\` with \`rel="next"\` is the address of the next
page; the last one has none. Animals that are added meanwhile neither repeat nor hide others.

## Deprecation

A deprecated operation says so on its answers: \`${header.deprecation}\`, \`${header.sunset}\` (when it is removed) and
\`${header.link}\` with \`rel="successor-version"\`. From its sunset on it answers 410.

## Reading and writing JSON

Identifiers are 64-bit integers: a reader that has only doubles loses digits above 2^53. Fields that are not described here
may appear in answers, and are ignored in requests.
`;

function planTable(): string {
  const rows = planNames.map((name) => {
    const { perMinute, perDay } = plans[name];
    // Agreed for each key: the contract's numbers only hold where none were.
    const quota = name === 'enterprise' ? ['custom', 'custom'] : [perMinute, perDay].map(grouped);
    return `| ${[`${name.charAt(0).toUpperCase()}${name.slice(1)}`, ...quota].join(' | ')} |`;
  });
  return ['| Plan | Requests per minute | Requests per day |', '|---|---|---|', ...rows].join('\n');
}

const grouped = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ',');
