import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** How many requests of one connection may be pending before the service stops reading from the connection. */
const MAX_PENDING = 16;

/** A request whose response has not been sent completely. */
type PendingRequest = {
  request: IncomingMessage;
  response: ServerResponse;
  isComplete: boolean;
  onComplete?: () => void;
};

type Connection = {
  /** The pending requests in the order of their arrival. The first one is being handled. */
  pending: PendingRequest[];
  latest?: PendingRequest;
  /** Whether the connection closes after the latest request. Later requests are ignored then. */
  isClosing: boolean;
};

/**
 * Handles the pipelined requests of a connection one after the other, although Node passes all of them on at once. A
 * list that follows a creation must contain the new animal (RFC 9112, 9.3.2), and a client that does not read its
 * responses must not fill the memory.
 */
export function createRequestQueue(handle: Handle) {
  const connections = new WeakMap<Socket, Connection>();
  let isStopping = false;

  function connectionOf(socket: Socket): Connection {
    let connection = connections.get(socket);
    if (connection === undefined) {
      connection = { pending: [], isClosing: false };
      connections.set(socket, connection);
    }
    return connection;
  }

  async function processPending(connection: Connection): Promise<void> {
    for (let [next] = connection.pending; next; [next] = connection.pending) {
      const { request, response } = next;
      // Skip the request if the socket is no longer writable: the client left, or `Connection: close` was announced.
      if (request.socket.writable) {
        const closed = new Promise((resolve) => response.on('close', resolve));
        await handle(request, response);
        await closed;
      }
      complete(connection, next);
      // Let other connections go first.
      if (connection.pending.length > 0) await new Promise(setImmediate);
    }
  }

  function complete({ pending, isClosing }: Connection, first: PendingRequest): void {
    const { socket } = first.request;
    pending.shift();
    first.isComplete = true;
    first.onComplete?.();
    // Node resumes reading when it releases a completed request, so pause the socket again if necessary.
    if (isClosing || pending.length > MAX_PENDING) socket.pause();
    else if (pending.length === MAX_PENDING) socket.resume();
  }

  return {
    handle(request: IncomingMessage, response: ServerResponse): void {
      const { socket } = request;
      const connection = connectionOf(socket);
      if (connection.isClosing) {
        socket.pause();
        return;
      }
      if (isStopping || endsConnection(request, response)) {
        connection.isClosing = true;
        response.setHeader('Connection', 'close');
      }
      connection.latest = { request, response, isComplete: false };
      const count = connection.pending.push(connection.latest);
      if (count > MAX_PENDING) socket.pause();
      if (count === 1) processPending(connection);
    },

    /** From now on, every connection closes after its next request. */
    stop() {
      isStopping = true;
    },

    /** Whether no other request waits on the connection of this request. */
    isLast: ({ socket }: IncomingMessage): boolean => (connections.get(socket)?.pending.length ?? 0) <= 1,

    /**
     * Waits for the responses to all requests that arrived in full before a parser error.
     *
     * @returns the response of the request that the error interrupted, `response` if the error needs a separate response,
     * or `nothing` if the error cannot be reported
     */
    async drain(socket: Socket): Promise<ServerResponse | 'response' | 'nothing'> {
      const { pending = [], latest, isClosing } = connections.get(socket) ?? {};
      if (latest === undefined) return 'response';
      const { request, response } = latest;
      const last = request.complete ? latest : pending[pending.indexOf(latest) - 1];
      if (last && !last.isComplete) {
        await new Promise<void>((resolve) => {
          last.onComplete = resolve;
        });
      }
      if (!request.complete) return response.headersSent ? 'nothing' : response;
      return isClosing ? 'nothing' : 'response';
    },
  };
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
