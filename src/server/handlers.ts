import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { header } from '../contract/headers.ts';
import { decodeIdempotencyKey } from '../contract/idempotency-key.ts';
import { type OperationInput, type OperationName, operations, pageSize } from '../contract/operations.ts';
import type { RateLimitDecision } from '../store/limits/limiter.ts';
import type { CreatePet, Idempotency, Store } from '../store/store.ts';
import type { Principal } from './auth/authentication.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';
import { invalidRequest, ServiceError } from './http-errors.ts';
import { type ResponseHeaders, type ServiceResponse, windowHeaders } from './response.ts';

export type HandlerContext = {
  store: Store;
  principal: Principal;
  /** The decision that allowed the request. */
  rateLimit: RateLimitDecision;
  request: IncomingMessage;
  /** The path of the base URL, for links. */
  basePath: string;
  now: number;
};

type Handler<Name extends OperationName> = (
  input: OperationInput<Name>,
  context: HandlerContext,
) => Promise<ServiceResponse>;

const IDEMPOTENCY_KEY = header.idempotencyKey.toLowerCase();

const IDEMPOTENCY_ERRORS = {
  mismatch: ['idempotency_mismatch', 'This Idempotency-Key was used with another body in the last 24 hours'],
  in_flight: ['idempotency_in_flight', 'The first request with this Idempotency-Key is still running'],
} as const;

/** Implements each operation of the contract. The input has already been validated with the schemas of the contract. */
const handlers: { [Name in OperationName]: Handler<Name> } = {
  async listPets({ query: { limit = pageSize.default, status, cursor } }, { store, rateLimit, basePath }) {
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    if (cursor !== undefined && after === undefined) {
      throw invalidRequest('cursor is not valid. Start again without it');
    }
    const { pets, next } = await store.list({ limit, status, after });
    const headers = windowHeaders(rateLimit);
    if (next !== undefined) {
      const filter = status === undefined ? '' : `&status=${status}`;
      const query = `limit=${limit}${filter}&cursor=${encodeCursor(next)}`;
      headers[header.link] = `<${basePath}${operations.listPets.path}?${query}>; rel="next"`;
    }
    // Node sends a string body together with the headers, but a buffer separately.
    const body = `[${pets.toString('latin1')}]`;
    return { status: operations.listPets.success.status, headers, body, encoding: 'latin1' };
  },

  async createPet({ body: { name, categoryId, status = 'available' } }, { store, principal, request }) {
    const pet = { name, categoryId, status };
    const idempotency = readIdempotency(request, principal, pet);
    const result = await store.add(idempotency ? { pet, idempotency } : { pet });
    if (!('pet' in result)) {
      const [code, message] = IDEMPOTENCY_ERRORS[result.kind];
      throw new ServiceError(code, message);
    }
    const headers: ResponseHeaders =
      result.kind === 'replayed' ? { [header.idempotencyReplayed]: 'true' } : {};
    return { status: operations.createPet.success.status, headers, body: result.pet };
  },

  async getPet({ params: { petId } }, { store, now }) {
    const { sunset, successor } = operations.getPet.deprecated;
    if (now >= sunset.getTime()) {
      throw new ServiceError(
        'operation_removed',
        `This operation was removed on ${sunset.toUTCString()}. Use GET ${successor} with a status filter`,
      );
    }
    const pet = await store.get(petId);
    if (pet === undefined) throw new ServiceError('not_found', `There is no animal with id ${petId}`);
    return { status: operations.getPet.success.status, headers: {}, body: pet };
  },

  async listOrders(_input, { store }) {
    const orders = await store.orders();
    return { status: operations.listOrders.success.status, headers: {}, body: `[${orders.join(',')}]` };
  },
};

/** Returns the handler of an operation. The cast is needed because TypeScript cannot infer the input type from `name`. */
export const handlerOf = (name: OperationName) => handlers[name] as Handler<OperationName>;

/** The Idempotency-Key of a creation with a hash of the new animal (D10). @throws ServiceError `invalid_request` */
function readIdempotency(
  request: IncomingMessage,
  { id }: Principal,
  { name, categoryId, status }: CreatePet['pet'],
): Idempotency | undefined {
  const value = request.headers[IDEMPOTENCY_KEY];
  if (value === undefined) return undefined;
  const key = decodeIdempotencyKey(String(value));
  if (key === undefined) {
    throw invalidRequest('Idempotency-Key must be a quoted string of 1 to 255 printable ASCII characters');
  }
  return { scope: id, key, bodyHash: hash('sha256', JSON.stringify([name, categoryId.toString(), status])) };
}
