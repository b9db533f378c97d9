import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ServiceError } from '../errors.ts';
import type { MaybePromise } from '../response.ts';

/** A request that waits or is being handled, or whose response has not been sent completely. */
type PendingRequest = {
  request: IncomingMessage;
  response: ServerResponse;
  onComplete?: () => void;
};

/** What the service remembers about an open connection. */
type Connection = {
  /** The pending requests in the order of their arrival. The first one is being handled. */
  pending: PendingRequest[];
  /** The request that arrived last. */
  latest: PendingRequest | undefined;
  /** Whether the connection closes after the latest request. Requests that arrive after it are ignored. */
  isClosing: boolean;
  /** The error that ends the connection. It is in the bytes of the latest request, or in those that follow it. */
  error: ServiceError | undefined;
  /** The last well-formed Authorization header, and the SHA-256 of the key in it. */
  authorization: string | undefined;
  credentialHash: string | undefined;
};

const CONNECTION = Symbol('connection');

/** Returns the state of a connection. It is a property of the socket, because a look-up in a map takes longer. */
export function connectionOf(socket: Socket & { [CONNECTION]?: Connection }): Connection {
  socket[CONNECTION] ??= {
    pending: [],
    latest: undefined,
    isClosing: false,
    error: undefined,
    authorization: undefined,
    credentialHash: undefined,
  };
  return socket[CONNECTION];
}

type Handle = (request: IncomingMessage, response: ServerResponse) => MaybePromise<void>;

/** How many requests of one connection may be pending before the service stops reading from the connection. */
const MAX_PENDING = 16;

/**
 * Returns functions that keep a queue for each connection. It handles the pipelined requests one after the other; Node
 * passes all of them on at once. A list that follows a creation must contain the new animal (RFC 9112, 9.3.2), and a
 * client that does not read its responses must not fill the memory.
 */
export function createRequestQueues(handle: Handle) {
  let isStopping = false;

  /** Handles the first pending request, and then those that follow it. */
  function handleFirst(connection: Connection): void {
    const [first] = connection.pending;
    if (first === undefined) return;
    const { request, response } = first;
    // Skip the request if the socket is no longer writable: the client left, or `Connection: close` was announced.
    if (!request.socket.writable) {
      complete(connection, first);
      return;
    }
    // The request ends when its handler has ended and the response has been sent, in either order.
    let isHalfDone = false;
    const onEnd = () => {
      if (isHalfDone) complete(connection, first);
      isHalfDone = true;
    };
    response.on('close', onEnd);
    const handling = handle(request, response);
    if (handling instanceof Promise) handling.then(onEnd);
    else onEnd();
  }

  function complete(connection: Connection, first: PendingRequest): void {
    const { pending, isClosing } = connection;
    const { socket } = first.request;
    pending.shift();
    first.onComplete?.();
    if (!isClosing && pending.length === MAX_PENDING) socket.resume();
    // Let other connections go first.
    if (pending.length > 0) setImmediate(handleFirst, connection);
  }

  /** Pauses reading after Node has passed on the requests in its buffer: Node resumes reading after each of them. */
  function pauseLater(connection: Connection, socket: Socket): void {
    setImmediate(() => {
      if (connection.isClosing || connection.pending.length > MAX_PENDING) socket.pause();
    });
  }

  return {
    handle(request: IncomingMessage, response: ServerResponse): void {
      const { socket } = request;
      const connection = connectionOf(socket);
      if (connection.isClosing || connection.pending.length === MAX_PENDING) pauseLater(connection, socket);
      if (connection.isClosing) return;
      if (isStopping || endsConnection(request, response)) closeAfter(connection, response);
      connection.latest = { request, response };
      if (connection.pending.push(connection.latest) === 1) handleFirst(connection);
    },

    /** Closes each connection after its latest response, or, if its headers have been sent, after the next one. */
    stop(sockets: Iterable<Socket>): void {
      isStopping = true;
      for (const connection of Array.from(sockets, connectionOf)) {
        const { response } = connection.pending.at(-1) ?? {};
        if (response && !response.headersSent) closeAfter(connection, response);
      }
    },

    /**
     * Records the error that ends a connection, and waits until all pending requests have been handled.
     * If the error interrupts a body, a handler that reads this body fails with the error.
     *
     * @returns whether the error needs a response of its own
     */
    async fail(socket: Socket, error: ServiceError): Promise<boolean> {
      const connection = connectionOf(socket);
      const { pending, latest, isClosing } = connection;
      connection.error = error;
      if (latest === undefined) return true;
      const { request, response } = latest;
      if (!request.complete) {
        if (!response.headersSent) closeAfter(connection, response);
        request.emit('interrupted', error);
      }
      if (pending.includes(latest)) {
        await new Promise<void>((resolve) => {
          latest.onComplete = resolve;
        });
      }
      return request.complete && !isClosing;
    },
  };
}

/** Announces that the connection closes after a response, so that the client does not send another request on it. */
function closeAfter(connection: Connection, response: ServerResponse): void {
  connection.isClosing = true;
  response.setHeader('Connection', 'close');
}

/**
 * Whether the connection must close after this request. This is so if the request does not allow keep-alive, or if the
 * start of the next request is unknown: Node loses the bytes after a rejected Upgrade, and HTTP/1.0 has no chunked coding
 * (RFC 9112, 6.1).
 */
export const endsConnection = (
  { headers, httpVersion }: IncomingMessage,
  response: ServerResponse,
): boolean =>
  !response.shouldKeepAlive ||
  headers.upgrade !== undefined ||
  (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined);
