import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { type OperationName, type Operations, operations, pageSize } from '../../contract/operations.ts';
import { petStatuses } from '../../contract/schemas.ts';
import { MAX_BODY_BYTES } from '../request/body.ts';

type FieldsOf<Op, Part extends string> =
  Op extends Record<Part, { shape: infer Shape }> ? keyof Shape : never;
type ParameterName = {
  [Name in OperationName]: FieldsOf<Operations[Name], 'params'> | FieldsOf<Operations[Name], 'query'>;
}[OperationName];

export const tags = {
  pets: 'The animals of the store.',
  orders: 'The orders of the store.',
} as const;

const pet = { id: 1, name: 'Rex', categoryId: 3, status: petStatuses[0] };

type OperationWords = {
  tag: keyof typeof tags;
  description: string;
  success: string;
  /** Examples of the body that is sent and of the one that comes back. */
  body?: unknown;
  example: unknown;
};

/** What the contract's table does not say of its operations. */
export const operationWords: Record<OperationName, OperationWords> = {
  listPets: {
    tag: 'pets',
    description:
      'Animals in ascending order of their id, a page at a time. Follow the `Link` header with `rel="next"` until an answer has none.',
    success: 'A page of animals.',
    example: [pet, { id: 2, name: 'Mia', categoryId: 1, status: petStatuses[1] }],
  },
  createPet: {
    tag: 'pets',
    description:
      'Adds an animal and assigns its id. A `status` that is left out is `available`. With an `Idempotency-Key` the request can be repeated without adding a second animal.',
    success: 'The animal that was added.',
    body: { name: pet.name, categoryId: pet.categoryId, status: pet.status },
    example: pet,
  },
  getPet: {
    tag: 'pets',
    description: 'One animal by its id.',
    success: 'The animal.',
    example: pet,
  },
  listOrders: {
    tag: 'orders',
    description: 'The orders of the store. The specification of the service shows no shape for them.',
    success: 'The orders, in whatever shape they have.',
    example: [{ orderId: 'A-1', petId: pet.id, quantity: 1 }],
  },
};

export const parameterWords: Record<string, string> = {
  limit: `The largest number of animals in the answer, ${pageSize.default} without it.`,
  status: 'Only animals of this availability.',
  cursor: 'Where the page begins, as the `Link` header of the page before has it. Opaque: do not build one.',
  petId: 'The id of the animal.',
} satisfies Record<ParameterName, string>;

export const schemaWords = {
  Pet: 'An animal of the inventory.',
  NewPet: 'An animal that is to be added. Fields that are not described are ignored.',
  PetStatus: 'The availability of an animal.',
  Pets: 'A page of animals.',
  Error: 'What every error answers with.',
  Orders: 'Any JSON document: the shape of an order is not described.',
} as const;

/** What a field is, by its name. */
export const fieldWords: Record<string, string> = {
  id: 'Assigned on creation, and never used again.',
  name: 'The name of the animal.',
  categoryId: 'The category that the animal belongs to.',
  code: `What went wrong, for programs: ${Object.keys(errorCodes).join(', ')}. More may come.`,
  message: 'What went wrong, for people.',
  status: 'The HTTP status of the response.',
};

/** When each error comes, and a message that it comes with. */
export const errorWords: Record<ErrorCode, { when: string; message: string }> = {
  invalid_request: {
    when: 'The request cannot be understood, misses something or holds an invalid value.',
    message: 'categoryId is required',
  },
  unauthorized: {
    when: 'The API key is missing or invalid.',
    message: 'A valid API key is needed: Authorization: Bearer <API_KEY>',
  },
  not_found: { when: 'There is no such thing.', message: 'There is no animal with id 9' },
  method_not_allowed: {
    when: 'The path does not have this method; `Allow` lists those that it has.',
    message: `${operations.listPets.path} allows GET, HEAD, POST, OPTIONS`,
  },
  request_timeout: {
    when: 'The request did not arrive in time.',
    message: 'The request did not arrive in time',
  },
  idempotency_in_flight: {
    when: 'The first request with this `Idempotency-Key` is still running.',
    message: 'The first request with this Idempotency-Key is still running',
  },
  operation_removed: {
    when: 'The operation was removed.',
    message: 'This operation was removed: use GET /pets with a status filter',
  },
  payload_too_large: {
    when: `The body is larger than ${MAX_BODY_BYTES} bytes.`,
    message: `The body is larger than ${MAX_BODY_BYTES} bytes`,
  },
  unsupported_media_type: {
    when: 'The body is not sent as `application/json`.',
    message: 'The body must be sent as Content-Type: application/json',
  },
  expectation_failed: {
    when: 'The request has an `Expect` that the service does not meet.',
    message: 'The only expectation that can be met is Expect: 100-continue',
  },
  misdirected_request: {
    when: 'The `Host` of the request is not one that the service answers for.',
    message: 'This service does not answer for shop.test',
  },
  idempotency_mismatch: {
    when: 'The `Idempotency-Key` was used with another body in the last 24 hours.',
    message: 'This Idempotency-Key was used with another body in the last 24 hours',
  },
  rate_limited: {
    when: 'The rate limit is exceeded.',
    message: 'The limit of 60 requests is used up: retry in 17 s',
  },
  key_banned: {
    when: 'The API key is banned for a time, because requests were sent on after the limit.',
    message: 'The key is banned for sending on after a 429: retry in 300 s',
  },
  headers_too_large: { when: 'The headers are too large.', message: 'The headers are larger than 8 KiB' },
  internal_error: { when: 'The service has failed.', message: 'The service has failed' },
  injected_fault: {
    when: 'A fault that was asked for when the service was started.',
    message: 'This fault was asked for with --fail-rate',
  },
};
