import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../contract/clock.ts';
import { header } from '../contract/headers.ts';
import { decodeIdempotencyKey } from '../contract/idempotency-key.ts';
import { type OperationInput, type OperationName, operations, pageSize } from '../contract/operations.ts';
import type { RateLimitDecision } from '../store/limits/limiter.ts';
import type { CreatePet, Idempotency, Page, Store } from '../store/store.ts';
import type { Principal } from './authentication.ts';
import { invalidRequest, ServiceError } from './errors.ts';
import { type Maybe, type ServiceResponse, windowHeaders } from './response.ts';

/** A request for an operation. `rateLimit` is the decision that allowed it. */
export type OperationCall = { request: IncomingMessage; principal: Principal; rateLimit: RateLimitDecision };

/** Carries out an operation. The input has already been validated with the schemas of the contract. */
type OperationHandler<Input> = (input: Input, call: OperationCall) => Maybe<ServiceResponse>;

const IDEMPOTENCY_KEY = header.idempotencyKey.toLowerCase();

const IDEMPOTENCY_ERRORS = {
  mismatch: ['idempotency_mismatch', 'This Idempotency-Key was used with another body in the last 24 hours'],
  in_flight: ['idempotency_in_flight', 'The first request with this Idempotency-Key is still running'],
} as const;

/** Implements the operations of the contract (docs/service.md 4). `basePath` is the path of the base URL, for links. */
export function createHandlers({
  store,
  clock,
  basePath,
}: {
  store: Store;
  clock: Clock;
  basePath: string;
}): Record<OperationName, OperationHandler<OperationInput<OperationName>>> {
  const handlers: { [Name in OperationName]: OperationHandler<OperationInput<Name>> } = {
    listPets({ query: { limit = pageSize.default, status, cursor } }, { rateLimit }) {
      const after = cursor === undefined ? undefined : decodeCursor(cursor);
      if (cursor !== undefined && after === undefined) {
        throw invalidRequest('cursor is not valid. Start again without it');
      }
      const respond = ({ pets, next }: Page): ServiceResponse => {
        const headers = windowHeaders(rateLimit);
        if (next !== undefined) {
          const filter = status === undefined ? '' : `&status=${status}`;
          const query = `limit=${limit}${filter}&cursor=${encodeCursor(next)}`;
          headers.push(header.link, `<${basePath}${operations.listPets.path}?${query}>; rel="next"`);
        }
        // Node sends a string body together with the headers, but a buffer separately.
        const body = `[${pets.toString('latin1')}]`;
        return { status: operations.listPets.success.status, headers, body, encoding: 'latin1' };
      };
      const page = store.list({ limit, status, after });
      return page instanceof Promise ? page.then(respond) : respond(page);
    },

    async createPet({ body: { name, categoryId, status = 'available' } }, { principal, request }) {
      const pet = { name, categoryId, status };
      const idempotency = readIdempotency(request, principal, pet);
      const result = await store.add(idempotency ? { pet, idempotency } : { pet });
      if (!('pet' in result)) {
        const [code, message] = IDEMPOTENCY_ERRORS[result.kind];
        throw new ServiceError(code, message);
      }
      const headers = result.kind === 'replayed' ? [header.idempotencyReplayed, 'true'] : [];
      return { status: operations.createPet.success.status, headers, body: result.pet };
    },

    async getPet({ params: { petId } }) {
      const { sunset, successor } = operations.getPet.deprecated;
      if (clock.now() >= sunset.getTime()) {
        throw new ServiceError(
          'operation_removed',
          `This operation was removed on ${sunset.toUTCString()}. Use GET ${successor} with a status filter`,
        );
      }
      const pet = await store.get(petId);
      if (pet === undefined) throw new ServiceError('not_found', `There is no animal with id ${petId}`);
      return { status: operations.getPet.success.status, body: pet };
    },

    async listOrders() {
      const orders = await store.orders();
      return { status: operations.listOrders.success.status, body: `[${orders.join(',')}]` };
    },
  };
  // TypeScript cannot infer the type of the input from the name of the operation.
  return handlers as Record<OperationName, OperationHandler<OperationInput<OperationName>>>;
}

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

/** The form of a cursor: the version of the format, then the id as 64 bits in hexadecimal. */
const CURSOR = /^v1([0-9a-f]{16})$/;

/** The cursor of the page after the animal with id `after` (docs/service.md, D1). Clients must not interpret it. */
export const encodeCursor = (after: bigint): string =>
  `v1${BigInt.asUintN(64, after).toString(16).padStart(16, '0')}`;

/** The id in a cursor; undefined if the text does not have the form of a cursor. */
export function decodeCursor(cursor: string): bigint | undefined {
  const digits = CURSOR.exec(cursor)?.[1];
  return digits === undefined ? undefined : BigInt.asIntN(64, BigInt(`0x${digits}`));
}
