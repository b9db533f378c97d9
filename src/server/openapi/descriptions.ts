import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { header } from '../../contract/headers.ts';
import { stringifyJson } from '../../contract/json.ts';
import { type Operation, type OperationName, type Operations, pageSize } from '../../contract/operations.ts';
import { petStatuses } from '../../contract/schemas.ts';
import { MAX_BODY_BYTES } from '../request/body.ts';
import { sampleData } from '../sample-data.ts';

type FieldsOf<Op, Part extends string> =
  Op extends Record<Part, { shape: infer Shape }> ? keyof Shape : never;
type ParameterName = {
  [Name in OperationName]: FieldsOf<Operations[Name], 'params'> | FieldsOf<Operations[Name], 'query'>;
}[OperationName];

export const tagDescriptions = {
  pets: 'The animals of the store.',
  orders: 'The orders of the store.',
} as const;

const pet = { id: 1, name: 'Rex', categoryId: 3, status: petStatuses[0] };

type OperationDescription = {
  tag: keyof typeof tagDescriptions;
  description: string;
  success: string;
  /** `body` is an example of the request body, `example` of the response body. */
  body?: unknown;
  example: unknown;
};

/** Texts and examples for the operations, in addition to the table `operations` of the contract. */
export const operationDescriptions: Record<OperationName, OperationDescription> = {
  listPets: {
    tag: 'pets',
    description:
      'Returns one page of animals in ascending order of id. Follow the `Link` header with `rel="next"` until a response has none.',
    success: 'A page of animals.',
    example: [pet, { id: 2, name: 'Mia', categoryId: 1, status: petStatuses[1] }],
  },
  createPet: {
    tag: 'pets',
    description:
      'Adds an animal and assigns its id. The default `status` is `available`. With an `Idempotency-Key`, repeating the request does not add a second animal.',
    success: 'The new animal.',
    body: { name: pet.name, categoryId: pet.categoryId, status: pet.status },
    example: pet,
  },
  getPet: {
    tag: 'pets',
    description: 'Returns one animal.',
    success: 'The animal.',
    example: pet,
  },
  listOrders: {
    tag: 'orders',
    description:
      'Returns the orders of the store. The specification of the service does not define their form.',
    success: 'The orders. Their form is not specified.',
    example: JSON.parse(stringifyJson(sampleData().orders.slice(0, 2))),
  },
};

/** The sentence about the removal of a deprecated operation; empty for other operations. */
export function deprecationNote({ deprecated }: Operation): string[] {
  if (deprecated === undefined) return [];
  return [
    `Deprecated: will be removed on ${deprecated.sunset.toUTCString()}. Use \`GET ${deprecated.successor}\` with a \`status\` filter instead.`,
  ];
}

type ParameterDescription = {
  description: string;
  /** A restriction that the contract does not have. */
  schema?: { minimum: number };
  example?: unknown;
};

export const parameterDescriptions: Record<string, ParameterDescription> = {
  limit: { description: `The maximum number of animals per page; ${pageSize.default} by default.` },
  status: { description: 'Return only animals with this status.' },
  cursor: {
    description:
      'The start of the page, taken from the `Link` header of the previous page. Opaque: do not construct it.',
  },
  // Because of the minimum, tools that generate requests ask for ids that an animal can have. Smaller ids get 404.
  petId: { description: 'The id of the animal.', schema: { minimum: 1 }, example: pet.id },
} satisfies Record<ParameterName, ParameterDescription>;

export const schemaDescriptions = {
  Pet: 'An animal of the inventory.',
  NewPet: 'A new animal. Unknown fields are ignored.',
  PetStatus: 'The availability of an animal.',
  Pets: 'A page of animals.',
  Error: 'The body of every error response.',
  Orders: 'Any JSON document: the form of an order is not defined.',
} as const;

export const fieldDescriptions: Record<string, string> = {
  id: 'Assigned on creation and never reused.',
  name: 'The name of the animal: any well-formed Unicode string.',
  categoryId: 'The category of the animal.',
  code: `Machine-readable error code: ${Object.keys(errorCodes).join(', ')}. More may be added.`,
  message: 'Human-readable description of the error.',
  status: 'The HTTP status of the response.',
};

/** When each error occurs. */
export const errorDescriptions: Record<ErrorCode, string> = {
  invalid_request: 'The request is malformed, or a value is missing or invalid.',
  unauthorized: 'The API key is missing or invalid.',
  forbidden: 'The server does not allow the request.',
  not_found: 'The resource does not exist.',
  method_not_allowed: `The path does not support the method; \`${header.allow}\` lists the supported ones.`,
  request_timeout: 'The request did not arrive in time.',
  idempotency_in_flight: `The first request with this \`${header.idempotencyKey}\` is still running.`,
  operation_removed: 'The operation was removed.',
  payload_too_large: `The body is larger than ${MAX_BODY_BYTES} bytes.`,
  unsupported_media_type: 'The body is not sent as `application/json`.',
  expectation_failed: 'The request has an unsupported `Expect` header.',
  misdirected_request: 'The service does not accept the `Host` of the request.',
  idempotency_mismatch: `The \`${header.idempotencyKey}\` was used with another body in the last 24 hours.`,
  rate_limited: 'The rate limit is exceeded.',
  key_banned: 'The API key is temporarily banned, because requests continued after the limit was exceeded.',
  headers_too_large: 'The headers are too large.',
  internal_error: 'An internal error occurred.',
  injected_fault: 'An injected fault: the service was started with faults for tests.',
  storage_full:
    'Nothing can be stored for now, because the disk is full or read-only. The request was not carried out.',
  storage_failed: 'The storage of the service failed. A creation may have been carried out.',
  unavailable:
    'The service cannot use its database or read its keys for now. A creation may have been carried out.',
  starting: 'The server is starting, and its store is not open yet. The request was not carried out.',
  too_many_connections: 'Too many connections are open. The request was not carried out.',
};
