import type { IncomingMessage } from 'node:http';
import { header } from '../contract/headers.ts';
import {
  API_PREFIX,
  type OperationInput,
  type OperationName,
  operations,
  pageSize,
} from '../contract/operations.ts';
import type { Store } from '../store/store.ts';
import type { Caller } from './caller/auth.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';
import { readIdempotency } from './request/idempotency.ts';
import { ServiceError } from './service-error.ts';

/**
 * An answer before the headers that every answer has. `body` is JSON text; in `latin1` each of its characters stands for
 * a byte of the text's UTF-8. It is final where the same request gets it for ever.
 */
export type Answer = {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string;
  encoding?: 'latin1';
  isFinal?: boolean;
};

export type Call = { store: Store; caller: Caller; request: IncomingMessage; now: number };

const IDEMPOTENCY_KEY = header.idempotencyKey.toLowerCase();

type Handler<Name extends OperationName> = (input: OperationInput<Name>, call: Call) => Promise<Answer>;

/** What each operation of the contract does. Their inputs come here already checked. */
export const handlers: { [Name in OperationName]: Handler<Name> } = {
  async listPets({ query }, { store }) {
    const { limit = pageSize.default, status, cursor } = query;
    const page = await store.list({ limit, status, after: readCursor(cursor, store.secret) });
    // Node sends a string together with the headers, and a buffer apart.
    const body = page.pets.toString('latin1');
    const answer: Answer = {
      status: operations.listPets.success.status,
      headers: {},
      body,
      encoding: 'latin1',
    };
    if (page.next === undefined) return answer;
    // Nothing of it needs an encoding.
    const filter = status === undefined ? '' : `&status=${status}`;
    const nextQuery = `limit=${limit}${filter}&cursor=${encodeCursor(page.next, store.secret)}`;
    const link = `<${API_PREFIX}${operations.listPets.path}?${nextQuery}>; rel="next"`;
    return { ...answer, headers: { [header.link]: link }, isFinal: true };
  },

  async createPet({ body }, { store, caller, request }) {
    const { name, categoryId, status = 'available' } = body;
    const pet = { name, categoryId, status };
    const idempotency = readIdempotency(request.headers[IDEMPOTENCY_KEY], caller.id, pet);
    const outcome = await store.add(idempotency ? { pet, idempotency } : { pet });
    switch (outcome.kind) {
      case 'added':
        return { status: operations.createPet.success.status, headers: {}, body: outcome.pet };
      case 'replayed':
        return {
          status: operations.createPet.success.status,
          headers: { [header.idempotencyReplayed]: 'true' },
          body: outcome.pet,
        };
      case 'mismatch':
        throw new ServiceError(
          'idempotency_mismatch',
          'This Idempotency-Key was used with another body in the last 24 hours',
        );
      case 'in_flight':
        throw new ServiceError(
          'idempotency_in_flight',
          'The first request with this Idempotency-Key is still running',
        );
    }
  },

  async getPet({ params }, { store, now }) {
    const { deprecated } = operations.getPet;
    if (now >= deprecated.sunset.getTime()) {
      throw new ServiceError(
        'operation_removed',
        `This operation was removed on ${deprecated.sunset.toUTCString()}: use GET ${deprecated.successor} with a status filter`,
      );
    }
    const pet = await store.get(params.petId);
    if (pet === undefined) throw new ServiceError('not_found', `There is no animal with id ${params.petId}`);
    return { status: operations.getPet.success.status, headers: {}, body: pet };
  },

  async listOrders(_input, { store }) {
    const orders = await store.orders();
    return { status: operations.listOrders.success.status, headers: {}, body: `[${orders.join(',')}]` };
  },
};

/** Calls the handler of an operation by its name: the table above pairs their types. */
export function callHandler<Name extends OperationName>(
  name: Name,
  input: OperationInput<Name>,
  call: Call,
): Promise<Answer> {
  const handler: Handler<Name> = handlers[name];
  return handler(input, call);
}

function readCursor(cursor: string | undefined, secret: string): bigint | undefined {
  if (cursor === undefined) return undefined;
  const after = decodeCursor(cursor, secret);
  if (after === undefined) {
    throw new ServiceError(
      'invalid_request',
      'cursor is not one that this service gave out: start without it',
    );
  }
  return after;
}
