import { errorCodes } from '../../contract/error-codes.ts';
import { header } from '../../contract/headers.ts';
import { API_PREFIX, type Operation, type OperationName, operations } from '../../contract/operations.ts';
import { deprecationHeaders } from '../route-match.ts';
import { INT64, type JsonSchema, type Ref, tableEntries } from './schemas.ts';

export type HeaderObject = { description: string; required: boolean; schema: JsonSchema; example?: unknown };

// The Link header can also name the replacement of an operation. This component describes links to the next page.
const NEXT_LINK = 'NextLink';

const count: JsonSchema = { type: 'integer', minimum: 0 };
const alwaysTrue: JsonSchema = { type: 'boolean', const: true };
const text = (pattern: string): JsonSchema => ({ type: 'string', pattern });

/** Matches the two windows of a structured header, each with these two integer parameters. */
const windowsPattern = (first: string, second: string): string =>
  ['minute', 'day'].map((name) => `"${name}";${first}=\\d+;${second}=\\d+`).join(', ');

/** Describes a header that is always present in the responses that list it. */
const always = (description: string, schema: JsonSchema, example: unknown): HeaderObject => ({
  description,
  required: true,
  schema,
  example,
});

/** Describes a header that a response may lack. `required: false` is the default, but some readers need the field. */
const optional = (description: string, schema: JsonSchema, example: unknown): HeaderObject => ({
  ...always(description, schema, example),
  required: false,
});

const commonHeaders: Record<string, HeaderObject> = {
  [header.rateLimit]: always('The request limit that currently applies to the caller.', count, 60),
  [header.rateLimitRemaining]: always('The requests left in the current window.', count, 59),
  [header.rateLimitReset]: always(
    'The Unix timestamp, in seconds, at which the limit resets.',
    { ...INT64, minimum: 0 },
    1795176060,
  ),
  [header.rateLimitPolicy]: always(
    'The request limits per minute and per day (draft-ietf-httpapi-ratelimit-headers).',
    text(`^${windowsPattern('q', 'w')}$`),
    '"minute";q=60;w=60, "day";q=1000;w=86400',
  ),
  [header.rateLimitWindows]: always(
    'The requests left in this minute and on this day, and the seconds until their ends.',
    text(`^${windowsPattern('r', 't')}$`),
    '"minute";r=59;t=17, "day";r=998;t=43217',
  ),
  [header.requestId]: always(
    'The id of the request: the one that the request had in the same header, or a new one.',
    text('^[A-Za-z0-9._-]{1,64}$'),
    '5f0c1d2e3b4a-17',
  ),
  [header.retryAfter]: always(
    'The seconds to wait before the next request.',
    { type: 'integer', minimum: 1 },
    17,
  ),
  [header.wwwAuthenticate]: always('The required authentication scheme.', text('^Bearer\\b'), 'Bearer'),
  [header.allow]: always('The methods of the path.', text('^[A-Z]+(, [A-Z]+)*$'), 'GET, HEAD, POST, OPTIONS'),
  [header.idempotencySupported]: optional(
    `The service supports \`${header.idempotencyKey}\`.`,
    alwaysTrue,
    true,
  ),
  [header.idempotencyReplayed]: optional(
    'The service repeated its response to the first request with the same `Idempotency-Key`.',
    alwaysTrue,
    true,
  ),
  [NEXT_LINK]: optional(
    'The address of the next page (RFC 8288); absent on the last one.',
    text('^<[^<>]+>; rel="next"$'),
    `<${API_PREFIX}${operations.listPets.path}?limit=20&cursor=v10000000000000014>; rel="next"`,
  ),
};

const deprecationDescriptions: Record<string, string> = {
  [header.deprecation]: 'When the operation was deprecated (RFC 9745).',
  [header.sunset]: 'When the operation will be removed (RFC 8594).',
  [header.link]: 'The replacement of the operation.',
};

/** The response headers, by the names of their components. */
export function headerComponents(): Record<string, HeaderObject> {
  const deprecations = tableEntries().flatMap(([name]) =>
    Object.entries(deprecationHeaders(name) ?? {}).map(([field, value]): [string, HeaderObject] => [
      `${name}.${field}`,
      optional(
        deprecationDescriptions[field] ?? '',
        // The path in the link depends on the base URL of the service.
        field === header.link
          ? text('^<[^<>]+>; rel="successor-version"$')
          : { type: 'string', const: value },
        value,
      ),
    ]),
  );
  return { ...commonHeaders, ...Object.fromEntries(deprecations) };
}

// The statuses of errors that occur only after the operation is known. Other errors can lack the deprecation headers.
const AFTER_ROUTING: readonly number[] = [
  errorCodes.unauthorized,
  errorCodes.not_found,
  errorCodes.operation_removed,
  errorCodes.expectation_failed,
  errorCodes.rate_limited,
  errorCodes.internal_error,
  errorCodes.injected_fault,
];

/** The response headers of an operation for one status. `headerRef` explains which headers are references. */
export function headersOf(name: OperationName, status: number): Record<string, HeaderObject | Ref> {
  const operation: Operation = operations[name];
  const isSuccess = status === operation.success.status;
  const isPage = isSuccess && operation.query?.shape['cursor'] !== undefined;
  const acceptsKey = isSuccess && operation.acceptsIdempotencyKey === true;
  const hasDeprecation = isSuccess || AFTER_ROUTING.includes(status);
  const deprecation = Object.keys(deprecationHeaders(name) ?? {});
  return {
    ...requiredHeader(header.rateLimit),
    ...requiredHeader(header.rateLimitRemaining),
    ...requiredHeader(header.rateLimitReset),
    ...requiredHeader(header.requestId),
    ...(status === errorCodes.rate_limited && requiredHeader(header.retryAfter)),
    ...(status === errorCodes.unavailable && { [header.retryAfter]: optionalRetryAfter }),
    ...(status === errorCodes.unauthorized && requiredHeader(header.wwwAuthenticate)),
    ...(status === errorCodes.method_not_allowed && requiredHeader(header.allow)),
    ...(status !== errorCodes.unauthorized && {
      [header.idempotencySupported]: headerRef(header.idempotencySupported, isSuccess),
    }),
    ...(acceptsKey && { [header.idempotencyReplayed]: headerRef(header.idempotencyReplayed, false) }),
    ...(isPage && {
      ...requiredHeader(header.rateLimitPolicy),
      ...requiredHeader(header.rateLimitWindows),
      [header.link]: headerRef(NEXT_LINK, false),
    }),
    ...Object.fromEntries(deprecation.map((field) => [field, headerRef(`${name}.${field}`, hasDeprecation)])),
  };
}

const optionalRetryAfter = optional(
  'The seconds to wait before the next request, if the service knows them.',
  { type: 'integer', minimum: 1 },
  5,
);

const requiredHeader = (field: string) => ({ [field]: componentRef(field) });

const componentRef = (component: string): Ref => ({ $ref: `#/components/headers/${component}` });

/** A reference cannot make an optional component required. If `isRequired`, returns a required copy instead. */
function headerRef(component: string, isRequired: boolean): HeaderObject | Ref {
  const described = headerComponents()[component];
  return isRequired && described ? { ...described, required: true } : componentRef(component);
}
