import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { RequestContext } from '../request/context.ts';

/** A request whose response has not been sent completely. */
export type PendingRequest = {
  request: IncomingMessage;
  response: ServerResponse;
  isComplete: boolean;
  onComplete?: () => void;
};

/** What the service remembers about an open connection. */
export type Connection = {
  /** The pending requests in the order of their arrival. The first one is being handled. */
  pending: PendingRequest[];
  /** The request that arrived last. */
  latest: PendingRequest | undefined;
  /** Whether the connection closes after the latest request. Later requests are ignored then. */
  isClosing: boolean;
  /** The context of the request that was handled last. A response to a parser error reports its rate-limit window. */
  context: RequestContext | undefined;
  /** The last well-formed Authorization header, and the SHA-256 of the key in it. */
  authorization: string | undefined;
  credentialHash: string | undefined;
};

const CONNECTION = Symbol('connection');

/** A property of the socket: with a WeakMap, a request takes about 0.3 µs longer. */
export function connectionOf(socket: Socket & { [CONNECTION]?: Connection }): Connection {
  socket[CONNECTION] ??= {
    pending: [],
    latest: undefined,
    isClosing: false,
    context: undefined,
    authorization: undefined,
    credentialHash: undefined,
  };
  return socket[CONNECTION];
}
