import * as z from 'zod/mini';
import type { ErrorStatus } from './error-codes.ts';
import { int64Text } from './int64.ts';
import { says } from './issues.ts';
import { NewPet, Orders, Pet, PetStatus, Pets } from './schemas.ts';

/** The page size of a list (specification 8.1). */
export const pageSize = { min: 1, max: 100, default: 20 } as const;

const limitRange = `must be an integer from ${pageSize.min} to ${pageSize.max}`;

/** `limit` as it stands in a query or behind `--limit`. */
export const PageLimit = z.pipe(
  z.custom<string>(
    (text) => typeof text === 'string' && /^[1-9]\d{0,2}$/.test(text) && Number(text) <= pageSize.max,
    says(limitRange),
  ),
  z.transform(Number),
);

/** What the router, the client, the command line's checks and the description of the service know of an operation. */
export type Operation = {
  method: 'GET' | 'POST';
  /** Below the base URL; `{name}` stands for the path parameter of that name. */
  path: `/${string}`;
  summary: string;
  /** Path parameters and query parameters, each from text. */
  params?: z.ZodMiniObject;
  query?: z.ZodMiniObject;
  body?: z.ZodMiniType;
  success: { status: 200 | 201; body: z.ZodMiniType };
  errors: readonly ErrorStatus[];
  /** Whether sending it twice does no more than sending it once. */
  repeatable: boolean;
  deprecated?: { since: Date; sunset: Date; successor: `/${string}` };
};

const everywhere = [400, 401, 405, 408, 417, 421, 429, 431, 500, 503] as const;

/** The service's operations (specification 4). Nothing else says what they are. */
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
    success: { status: 200, body: Pets },
    errors: everywhere,
    repeatable: true,
  },
  createPet: {
    method: 'POST',
    path: '/pets',
    summary: 'Add an animal',
    body: NewPet,
    success: { status: 201, body: Pet },
    errors: [...everywhere, 409, 413, 415, 422],
    repeatable: false,
  },
  getPet: {
    method: 'GET',
    path: '/pets/{petId}',
    summary: 'Get an animal',
    params: z.object({ petId: int64Text }),
    success: { status: 200, body: Pet },
    errors: [...everywhere, 404, 410],
    repeatable: true,
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
    success: { status: 200, body: Orders },
    errors: everywhere,
    repeatable: true,
  },
} as const satisfies Record<string, Operation>;

export type Operations = typeof operations;
export type OperationName = keyof Operations;

type Part<Op, Name extends string> =
  Op extends Record<Name, z.ZodMiniType> ? Record<Name, z.output<Op[Name]>> : unknown;

/** What a caller hands over: `{ params, query, body }`, each only where the operation has it. */
export type OperationInput<Name extends OperationName> = Part<Operations[Name], 'params'> &
  Part<Operations[Name], 'query'> &
  Part<Operations[Name], 'body'>;

/** What a caller gets back. */
export type OperationOutput<Name extends OperationName> = z.output<Operations[Name]['success']['body']>;

/** The version is part of the address (specification 9): every base URL ends in it. */
export const API_PREFIX = '/v1';
