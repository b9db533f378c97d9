import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import type { App } from '../app.ts';
import { invalidRequest, ServiceError } from '../errors.ts';
import { interruptBody } from '../request/input.ts';

/** Limits against hostile clients (docs/service.md 8.5). Times are in milliseconds, sizes in bytes. */
export const CONNECTION_LIMITS = {
  /** `headersTimeout` and `requestTimeout` start with the connection, or with the first byte of a later request. */
  headersTimeout: 5_000,
  requestTimeout: 15_000,
  idleTimeout: 30_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: 8 * 1024,
  /** Node closes further connections without a response. */
  maxConnections: 512,
};

/** How long a server that stops waits for requests on idle connections, which may be on their way. */
const LAST_REQUESTS_MS = 100;

export type ListenOptions = {
  host: string;
  port: number;
  limits?: Partial<typeof CONNECTION_LIMITS> | undefined;
};

type Connection = {
  /** The last request that was passed to the app, and the response to it. */
  request?: IncomingMessage;
  response?: ServerResponse;
  /** Whether the connection closes after the response. Until then, what arrives is ignored. */
  isClosing: boolean;
};

/**
 * Serves an app on an address. `replaceApp` sets the app for later requests.
 *
 * @throws the system's error (`EADDRINUSE`, `EACCES`, …) if the address is not available
 */
export async function listen(app: App, { host, port, limits = {} }: ListenOptions) {
  const { idleTimeout, maxConnections, ...timeouts } = { ...CONNECTION_LIMITS, ...limits };
  const connections = new Map<Socket, Connection>();
  let currentApp = app;
  let isStopping = false;
  // The app checks the Host header itself, because Node's own error response has no body.
  // Repeated headers are joined. One that must have a single value, such as Authorization, is then invalid.
  const server = createServer({ ...timeouts, requireHostHeader: false, joinDuplicateHeaders: true });
  server.maxConnections = maxConnections;
  // By default, Node silently drops all headers after the first thousand. The total size of headers is limited anyway.
  server.maxHeadersCount = 0;
  server.setTimeout(idleTimeout);
  server.on('connection', (socket: Socket) => {
    connections.set(socket, { isClosing: false });
    socket.once('close', () => connections.delete(socket));
  });

  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const { socket } = request;
    const connection = connections.get(socket);
    if (connection === undefined) return;
    // One request at a time: if another arrives before the response, the closed connection shows that it was not handled.
    if (isPending(connection)) closeAfterResponse(connection);
    if (connection.isClosing) return;
    connection.request = request;
    connection.response = response;
    // Node loses the bytes after an Upgrade that it ignores, so the start of the next request would be unknown.
    if (isStopping || request.headers.upgrade !== undefined) closeAfterResponse(connection);
    currentApp(request, response);
  };
  server.on('request', onRequest);
  // Node's own response to an unknown expectation has no body.
  server.on('checkExpectation', onRequest);

  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const connection = connections.get(socket);
    if (!connection || !socket.writable) {
      socket.destroy();
      return;
    }
    const { request, isClosing } = connection;
    const refusal = toServiceError(error);
    // If the error is in the body of a request, it is the response to that request.
    if (isPending(connection)) {
      closeAfterResponse(connection);
      if (request && !request.complete) interruptBody(request, refusal);
    } else if (isClosing || request?.complete === false) socket.destroySoon();
    else sendError(currentApp, refusal, socket);
    connection.isClosing = true;
  });

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const address = server.address() as AddressInfo;
  return {
    /** The URL of the server without the path `/v1`. */
    origin: `http://${urlHost(host)}:${address.port}`,
    port: address.port,
    replaceApp(other: App): void {
      currentApp = other;
    },

    /** Stops accepting connections and finishes running requests. After `graceMilliseconds`, closes all connections. */
    async stop(graceMilliseconds: number): Promise<void> {
      isStopping = true;
      // `server.close()` would also close connections whose last response is still being written.
      const closed = new Promise((resolve) => NetServer.prototype.close.call(server, resolve));
      for (const connection of connections.values())
        if (isPending(connection)) closeAfterResponse(connection);
      // A request may have arrived that Node has not passed on yet.
      const closeIdle = setTimeout(() => {
        for (const [socket, connection] of connections) if (!isPending(connection)) socket.destroy();
      }, LAST_REQUESTS_MS);
      const closeAll = setTimeout(() => {
        for (const socket of connections.keys()) socket.destroy();
      }, graceMilliseconds);
      await closed;
      clearTimeout(closeIdle);
      clearTimeout(closeAll);
      // Now that no connection is left, stop the timer that checks for slow requests.
      server.close();
    },
  };
}

/** Whether the response to the last request has not been sent completely. */
const isPending = ({ response }: Connection): boolean => response?.writableFinished === false;

/** Closes the connection after the pending response, and announces that if its headers have not been sent yet. */
function closeAfterResponse(connection: Connection): void {
  const { request, response, isClosing } = connection;
  if (isClosing) return;
  connection.isClosing = true;
  if (response?.headersSent === false) response.setHeader('Connection', 'close');
  else response?.once('close', () => request?.socket.destroySoon());
}

const PARSER_ERRORS: Readonly<Record<string, ServiceError>> = {
  HPE_HEADER_OVERFLOW: new ServiceError(
    'headers_too_large',
    'The target and the headers are larger than 8 KiB. In a browser, delete the cookies of this host',
  ),
  ERR_HTTP_REQUEST_TIMEOUT: new ServiceError('request_timeout', 'The request did not arrive in time'),
  HPE_INVALID_EOF_STATE: invalidRequest('The client closed the connection before the end of its request'),
};

/** The error response to a request that Node rejected (docs/service.md 8.5 and 10). */
const toServiceError = ({ code = '' }: NodeJS.ErrnoException): ServiceError =>
  PARSER_ERRORS[code] ?? invalidRequest('The request is not valid HTTP/1.1');

/** Sends an error as the last response of a connection, for bytes that Node did not pass on as a request. */
function sendError(app: App, error: ServiceError, socket: Socket): void {
  const request = new IncomingMessage(socket);
  const response = new ServerResponse(request);
  response.assignSocket(socket);
  response.once('finish', () => socket.destroySoon());
  app(request, response, error);
}

/** A host as part of a URL, with the loopback address in place of a wildcard address. */
function urlHost(host: string): string {
  // A server that listens on all IPv6 addresses also accepts IPv4.
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
