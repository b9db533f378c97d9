import * as z from 'zod/mini';
import { fieldError, int64Text } from './json.ts';
import { NewPet, Orders, Pet, PetStatus, Pets, ReceivedPet, ReceivedPets } from './schemas.ts';

/** The range and default of `limit` (docs/service.md 8.1). */
export const pageSize = { min: 1, max: 100, default: 20 } as const;

/** The query parameter `limit`, which is parsed from text. */
export const PageLimit = z.pipe(
  z.custom<string>(
    (text) => typeof text === 'string' && /^[1-9]\d{0,2}$/.test(text) && Number(text) <= pageSize.max,
    fieldError(`must be an integer from ${pageSize.min} to ${pageSize.max}`),
  ),
  z.transform(Number),
);

/** An operation, as the service and the client use it. A test compares openapi.json with all operations. */
export type Operation = {
  method: 'GET' | 'POST';
  /** Relative to the base URL; `{name}` is a path parameter. */
  path: `/${string}`;
  summary: string;
  /** Schemas of the path parameters and of the query parameters; their input is text. */
  params?: z.ZodMiniObject;
  query?: z.ZodMiniObject;
  body?: z.ZodMiniType;
  /** `received` is what the client accepts from any service; the service itself sends `body`. */
  success: { status: 200 | 201; body: z.ZodMiniType; received: z.ZodMiniType };
  errors: readonly ErrorStatus[];
  /** Whether sending the request twice has the same effect as sending it once. */
  idempotent: boolean;
  /** Whether an `Idempotency-Key` makes it safe to send the request again (docs/service.md 4.6). */
  acceptsIdempotencyKey?: true;
  deprecated?: { since: Date; sunset: Date; successor: `/${string}` };
};

/** Error statuses that every operation may return. */
const commonErrors = [400, 401, 405, 408, 417, 421, 429, 431, 500, 503] as const;

/** The operations of the service (docs/service.md 4). */
export const operations = {
  listPets: {
    method: 'GET',
    path: '/pets',
    summary: 'List animals',
    query: z.object({
      limit: z.optional(PageLimit),
      status: z.optional(PetStatus),
      cursor: z.optional(z.string()),
    }),
    success: { status: 200, body: Pets, received: ReceivedPets },
    errors: commonErrors,
    idempotent: true,
  },
  createPet: {
    method: 'POST',
    path: '/pets',
    summary: 'Add an animal',
    body: NewPet,
    success: { status: 201, body: Pet, received: ReceivedPet },
    errors: [...commonErrors, 409, 413, 415, 422],
    idempotent: false,
    acceptsIdempotencyKey: true,
  },
  getPet: {
    method: 'GET',
    path: '/pets/{petId}',
    summary: 'Get an animal',
    params: z.object({ petId: int64Text }),
    success: { status: 200, body: Pet, received: ReceivedPet },
    errors: [...commonErrors, 404, 410],
    idempotent: true,
    deprecated: {
      since: new Date('2026-11-20T00:00:00Z'),
      sunset: new Date('2030-12-05T00:00:00Z'),
      successor: '/pets',
    },
  },
  listOrders: {
    method: 'GET',
    path: '/store/orders',
    summary: 'Store orders',
    success: { status: 200, body: Orders, received: Orders },
    errors: commonErrors,
    idempotent: true,
  },
} as const satisfies Record<string, Operation>;

export type Operations = typeof operations;
export type OperationName = keyof Operations;

type InputPart<Op, Name extends string> =
  Op extends Record<Name, z.ZodMiniType> ? Record<Name, z.output<Op[Name]>> : unknown;

/** The parsed input of an operation. It has `params`, `query` and `body` if the operation declares them. */
export type OperationInput<Name extends OperationName> = InputPart<Operations[Name], 'params'> &
  InputPart<Operations[Name], 'query'> &
  InputPart<Operations[Name], 'body'>;

/** The body of a successful response, as the client reads it. */
export type OperationOutput<Name extends OperationName> = z.output<Operations[Name]['success']['received']>;

/** The path at the end of the service's base URL (docs/service.md 1). */
export const API_PREFIX = '/v1';

/** The service's error codes and the HTTP status of each (docs/service.md, D11). */
export const errorCodes = {
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  idempotency_in_flight: 409,
  operation_removed: 410,
  payload_too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  misdirected_request: 421,
  idempotency_mismatch: 422,
  rate_limited: 429,
  key_banned: 429,
  headers_too_large: 431,
  internal_error: 500,
  injected_fault: 503,
  storage_full: 503,
  storage_failed: 503,
  storage_unreachable: 503,
  unavailable: 503,
  starting: 503,
} as const;

export type ErrorCode = keyof typeof errorCodes;
export type ErrorStatus = (typeof errorCodes)[ErrorCode];

const notCarriedOutCodes: readonly ErrorCode[] = ['storage_full', 'storage_unreachable', 'starting'];

/** Whether a response is a 503 that says that the request was not carried out (docs/service.md, D11). */
export const isNotCarriedOut = ({ status, code }: { status: number; code?: string | undefined }): boolean =>
  status === 503 && notCarriedOutCodes.some((errorCode) => errorCode === code);

/** Requests that an API key may make per UTC minute and per UTC day (docs/service.md 8.2). */
export type Quota = { perMinute: number; perDay: number };

export const planNames = ['free', 'pro', 'business', 'enterprise'] as const;
export const PlanName = z.enum(planNames, { error: `must be one of ${planNames.join(', ')}` });
export type PlanName = z.infer<typeof PlanName>;

/** The largest quota: far above any real traffic, and small enough for exact arithmetic. */
export const MAX_QUOTA = 10 ** 15;

/** The quotas of each plan. Those of enterprise are defaults, because an enterprise key can have its own quota. */
export const plans: Readonly<Record<PlanName, Quota>> = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
  enterprise: { perMinute: 1_000_000_000, perDay: 1_000_000_000_000 },
};
