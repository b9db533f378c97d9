import { errorCodes } from '../../contract/error-codes.ts';
import { header } from '../../contract/headers.ts';
import { API_PREFIX, type Operation, type OperationName, operations } from '../../contract/operations.ts';
import { deprecationHeaders } from '../response-headers.ts';
import { INT64, type JsonSchema, type Ref, tableEntries } from './schemas.ts';

export type Header = { description: string; required?: boolean; schema: JsonSchema; example?: unknown };

// The Link header is two: each has a name of its own here.
const NEXT_LINK = 'NextLink';

const count: JsonSchema = { type: 'integer', minimum: 0 };
const yes: JsonSchema = { type: 'boolean', const: true };

const common: Record<string, Header> = {
  [header.rateLimit]: {
    description: 'The request limit that applies to the caller now.',
    required: true,
    schema: count,
    example: 60,
  },
  [header.rateLimitRemaining]: {
    description: 'The requests that are left in the current window.',
    required: true,
    schema: count,
    example: 59,
  },
  [header.rateLimitReset]: {
    description: 'The Unix timestamp, in seconds, at which the limit resets.',
    required: true,
    schema: { ...INT64, minimum: 0 },
    example: 1795176060,
  },
  [header.retryAfter]: {
    description: 'The seconds to wait before the next request.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
    example: 17,
  },
  [header.wwwAuthenticate]: {
    description: 'The scheme of the key that is needed.',
    required: true,
    schema: { type: 'string', pattern: '^Bearer\\b' },
    example: 'Bearer',
  },
  [header.allow]: {
    description: 'The methods that the path has.',
    required: true,
    schema: { type: 'string', pattern: '^[A-Z]+(, [A-Z]+)*$' },
    example: 'GET, HEAD, POST, OPTIONS',
  },
  [header.idempotencySupported]: {
    description: `Says that the service knows \`${header.idempotencyKey}\`.`,
    schema: yes,
    example: true,
  },
  [header.idempotencyReplayed]: {
    description: 'Says that the request was a repetition, and this is the answer of the first one.',
    schema: yes,
    example: true,
  },
  [NEXT_LINK]: {
    description: 'The address of the next page (RFC 8288); absent on the last one.',
    schema: { type: 'string', pattern: '^<[^<>]+>; rel="next"$' },
    example: `<${API_PREFIX}${operations.listPets.path}?limit=20&cursor=AAAA>; rel="next"`,
  },
};

const deprecationWords: Record<string, string> = {
  [header.deprecation]: 'Since when the operation is deprecated (RFC 9745).',
  [header.sunset]: 'When the operation is removed (RFC 8594).',
  [header.link]: 'What takes the place of the operation.',
};

/** The headers of responses, by their names in the document. */
export function headerComponents(): Record<string, Header> {
  const deprecations = tableEntries().flatMap(([name]) =>
    Object.entries(deprecationHeaders(name)).map(([field, value]): [string, Header] => [
      `${name}.${field}`,
      {
        description: deprecationWords[field] ?? '',
        schema: { type: 'string', const: value },
        example: value,
      },
    ]),
  );
  return { ...common, ...Object.fromEntries(deprecations) };
}

// Those that come once it is known which operation is meant; the other errors may come before.
const FROM_THE_OPERATION: readonly number[] = [
  errorCodes.unauthorized,
  errorCodes.not_found,
  errorCodes.operation_removed,
  errorCodes.expectation_failed,
  errorCodes.rate_limited,
  errorCodes.internal_error,
  errorCodes.injected_fault,
];

/** The headers of an answer: a reference where the header may be absent, or is told as required by itself. */
export function headersOf(name: OperationName, status: number): Record<string, Header | Ref> {
  const operation: Operation = operations[name];
  const succeeds = status === operation.success.status;
  const isAnnounced = succeeds || FROM_THE_OPERATION.includes(status);
  const isPage = succeeds && operation.query?.shape['cursor'] !== undefined;
  const isRepeatableByKey = succeeds && !operation.repeatable;
  return {
    ...always(header.rateLimit),
    ...always(header.rateLimitRemaining),
    ...always(header.rateLimitReset),
    ...(status === errorCodes.rate_limited && always(header.retryAfter)),
    ...(status === errorCodes.unauthorized && always(header.wwwAuthenticate)),
    ...(status === errorCodes.method_not_allowed && always(header.allow)),
    ...(status !== errorCodes.unauthorized && {
      [header.idempotencySupported]: mention(header.idempotencySupported, succeeds),
    }),
    ...(isRepeatableByKey && { [header.idempotencyReplayed]: mention(header.idempotencyReplayed, false) }),
    ...(isPage && { [header.link]: mention(NEXT_LINK, false) }),
    ...Object.fromEntries(
      Object.keys(deprecationHeaders(name)).map((field) => [field, mention(`${name}.${field}`, isAnnounced)]),
    ),
  };
}

const always = (field: string) => ({ [field]: refToHeader(field) });

const refToHeader = (component: string): Ref => ({ $ref: `#/components/headers/${component}` });

/** A reference cannot say "required here": where an optional header is certain, it stands in full. */
function mention(component: string, isCertain: boolean): Header | Ref {
  const described = headerComponents()[component];
  return isCertain && described ? { ...described, required: true } : refToHeader(component);
}
