import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  STATUS_CODES,
} from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import type { App } from '../app.ts';
import { invalidRequest, methodNotAllowed, ServiceError } from '../errors.ts';
import { headersTooLargeError, MAX_HEADER_BYTES } from '../request/checks.ts';
import { allMethodsHeader } from '../routes.ts';
import { connectionOf, createRequestQueues, endsConnection } from './pipelining.ts';

/** Limits against hostile clients (docs/service.md 8.5). Times are in milliseconds, sizes in bytes. */
export const CONNECTION_LIMITS = {
  /** `headersTimeout` and `requestTimeout` start with the connection, or with the first byte of a later request. */
  headersTimeout: 5_000,
  requestTimeout: 15_000,
  idleTimeout: 30_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: MAX_HEADER_BYTES,
  maxConnections: 256,
};
/** How many connections above `maxConnections` get an error for each request. More are closed without a response. */
const MAX_REFUSED = 256;
const SWEEP_MILLISECONDS = 100;

export type ListenOptions = {
  host: string;
  port: number;
  limits?: Partial<typeof CONNECTION_LIMITS> | undefined;
  /** Called for each connection above the limit. */
  onRefused?: (() => void) | undefined;
};

/**
 * Serves an app on an address. `app` returns the app that handles requests now; it changes when the store is open.
 *
 * @throws the system's error (`EADDRINUSE`, `EACCES`, …) if the address is not available
 */
export async function listen(app: () => App, { host, port, limits = {}, onRefused }: ListenOptions) {
  const { idleTimeout, maxConnections, ...timeouts } = { ...CONNECTION_LIMITS, ...limits };
  const sockets = new Set<Socket>();
  const tooManyConnections = new ServiceError(
    'too_many_connections',
    `${maxConnections} connections are open, which is the limit; the request was not carried out`,
  );
  const queues = createRequestQueues((request, response) => {
    // Only the oldest `maxConnections` connections are served.
    const isRefused = sockets.size > maxConnections && [...sockets].indexOf(request.socket) >= maxConnections;
    return app().handle(request, response, isRefused ? tooManyConnections : undefined);
  });
  // The app checks the Host header itself, because Node's own error response has no body.
  // Repeated headers are joined. One that must have a single value, such as Authorization, is then invalid.
  const server = createServer({ ...timeouts, requireHostHeader: false, joinDuplicateHeaders: true });
  server.maxConnections = maxConnections + MAX_REFUSED;
  server.on('drop', () => onRefused?.());
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    if (sockets.size > maxConnections) onRefused?.();
  });
  // A client may close its sending side and still wait for responses.
  Object.assign(server, { httpAllowHalfOpen: true });
  // By default, Node silently drops all headers after the first thousand. The total size of headers is limited anyway.
  server.maxHeadersCount = 0;
  server.setTimeout(idleTimeout);
  server.on('request', queues.handle);
  server.on('checkContinue', onCheckContinue(queues.handle));
  server.on('checkExpectation', queues.handle);

  const failConnection = async (error: ServiceError, socket: Socket) => {
    // Report only the first error of a connection, because the bytes after it are not a request.
    if (connectionOf(socket).error) return;
    socket.pause();
    // If the client has closed its sending side, Node's own listener would end the connection before the error is sent.
    socket.removeAllListeners('end');
    if ((await queues.fail(socket, error)) && socket.writable) sendError(app(), error, socket);
    // `end()` closes only the sending side: Node would still parse the bytes after the rejected request, and could run them
    // as requests.
    socket.destroySoon();
  };
  server.on('connect', ({ socket }: IncomingMessage) => {
    // Node removes its own listeners from this socket. Without these listeners, an error would end the process.
    for (const event of ['error', 'timeout']) socket.on(event, () => socket.destroy());
    failConnection(methodNotAllowed('The service', allMethodsHeader), socket);
  });
  server.on('clientError', (error: ParserError, socket: Socket) => {
    if (error.code === 'ECONNRESET' || error.code === 'EPIPE') socket.destroy();
    else failConnection(toServiceError(error), socket);
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
    /** Stops accepting connections and finishes running requests. After `graceMilliseconds`, closes all connections. */
    stop(graceMilliseconds: number): Promise<void> {
      queues.stop(sockets);
      return stop(server, sockets, graceMilliseconds);
    },
  };
}

/**
 * Handles a request with `Expect: 100-continue`. Sends `100 Continue` when the service begins to read the body. If it
 * never does, closes the connection after the response, because the client may send the body anyway.
 */
function onCheckContinue(handle: RequestListener): RequestListener {
  return (request, response) => {
    response.setHeader('Connection', 'close');
    request.once('resume', () => {
      if (response.headersSent) return;
      if (!endsConnection(request, response)) response.removeHeader('Connection');
      response.writeContinue();
    });
    return handle(request, response);
  };
}

const PARSER_ERRORS: Readonly<Record<string, ServiceError>> = {
  HPE_HEADER_OVERFLOW: headersTooLargeError(),
  ERR_HTTP_REQUEST_TIMEOUT: new ServiceError('request_timeout', 'The request did not arrive in time'),
  HPE_INVALID_EOF_STATE: invalidRequest('The client closed the connection before the end of its request'),
};
const NOT_HTTP = invalidRequest('The request is not valid HTTP');

/** The rest of a valid request line after Node's parser has stopped in a method that it does not know. */
const REQUEST_LINE = /^[!#$%&'*+.^_`|~\w-]* \S+ HTTP\/1\.[01]\r?\n/;

type ParserError = Error & { code?: string; rawPacket?: Buffer; bytesParsed?: number };

/** The error response to a request that Node rejected (docs/service.md 8.5 and 10). */
function toServiceError({ code = '', rawPacket, bytesParsed }: ParserError): ServiceError {
  if (code === 'HPE_INVALID_METHOD' && REQUEST_LINE.test(rawPacket?.toString('latin1', bytesParsed) ?? ''))
    return methodNotAllowed('The service', allMethodsHeader);
  return PARSER_ERRORS[code] ?? NOT_HTTP;
}

/** Sends an error as the last response of a connection, for bytes that Node did not pass on as a request. */
function sendError(app: App, error: ServiceError, socket: Socket): void {
  const { headers, body } = app.errorResponse(error, socket);
  const lines = [...headers, 'Connection', 'close', 'Date', new Date().toUTCString()];
  const text = lines.map((part, i) => part + (i % 2 === 0 ? ': ' : '\r\n')).join('');
  socket.write(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n${text}\r\n${body}`);
}

/** A host as part of a URL; the wildcard addresses are replaced by loopback. */
function urlHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

function stop(server: Server, sockets: ReadonlySet<Socket>, graceMilliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const forceClose = setTimeout(() => {
      // Use our own list of sockets, because Node's list lacks those of CONNECT requests.
      for (const socket of sockets) socket.destroy();
    }, graceMilliseconds);
    // A busy connection may become idle later, so check again until all are closed.
    const closeIdle = setInterval(() => {
      // A connection that never sent a byte is not idle for Node. Browsers open such connections in advance.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      // A connection whose last response is still being written is idle for Node. Closing it would truncate the response.
      if (![...sockets].some(({ writableLength }) => writableLength > 0)) server.closeIdleConnections();
    }, SWEEP_MILLISECONDS);
    // Close only the TCP server: `server.close()` would also close idle connections and stop the check for slow requests.
    NetServer.prototype.close.call(server, () => {
      clearTimeout(forceClose);
      clearInterval(closeIdle);
      // Now that no connection is left, stop the timer that checks for slow requests.
      server.close();
      resolve();
    });
  });
}
