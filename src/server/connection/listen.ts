import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import type { App } from '../app.ts';
import { methodNotAllowed, ServiceError } from '../errors.ts';
import { MAX_HEADER_BYTES } from '../request/checks.ts';
import { allMethods } from '../routes.ts';
import { limitConnections } from './connection-limit.ts';
import { type ParserError, sendParserError, toServiceError } from './parser-errors.ts';
import { createRequestQueue, endsConnection } from './pipelining.ts';

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
  refusalTimeout: 1_000,
};
const SWEEP_MILLISECONDS = 100;

export type ListenOptions = {
  host: string;
  port: number;
  limits?: Partial<typeof CONNECTION_LIMITS> | undefined;
  /** Called for each connection above the limit. */
  onRefused?: (() => void) | undefined;
};

/**
 * Serves an app on an address.
 *
 * @throws the system's error (`EADDRINUSE`, `EACCES`, …) if the address is not available
 */
export async function listen(app: App, { host, port, limits = {}, onRefused }: ListenOptions) {
  const { idleTimeout, maxConnections, refusalTimeout, ...timeouts } = { ...CONNECTION_LIMITS, ...limits };
  const queue = createRequestQueue(app.handle);
  // The app checks the Host header itself, because Node's own error response has no body.
  // Repeated headers are joined, so that they are never valid.
  const server = createServer({ ...timeouts, requireHostHeader: false, joinDuplicateHeaders: true });
  const sockets = limitConnections(server, { maxConnections, refusalTimeout, onRefused }, async (socket) => {
    const error = new ServiceError(
      'too_many_connections',
      `${maxConnections} connections are open, which is the limit`,
    );
    sendParserError(app, error, socket, 'response');
  });
  // A client may close its sending side and still wait for responses.
  Object.assign(server, { httpAllowHalfOpen: true });
  // By default, Node silently drops all headers after the first thousand. The total size of headers is limited anyway.
  server.maxHeadersCount = 0;
  server.setTimeout(idleTimeout);
  server.on('request', queue.handle);
  server.on('checkContinue', onCheckContinue(queue.handle));
  server.on('checkExpectation', queue.handle);

  const failedSockets = new WeakSet<Socket>();
  const failConnection = async (error: ServiceError, socket: Socket) => {
    // Report only the first error of a connection, because the bytes after it are not a request.
    if (failedSockets.has(socket)) return;
    failedSockets.add(socket);
    socket.pause();
    // If the client has closed its sending side, Node's own listener would end the connection before the error is sent.
    socket.removeAllListeners('end');
    const target = await queue.drain(socket);
    // A handler that reads the body of the interrupted request must not wait forever.
    if (typeof target === 'object') socket.once('close', () => target.req.destroy());
    if (target !== 'nothing' && socket.writable) sendParserError(app, error, socket, target);
    // `end()` closes only the sending side: Node would still parse the bytes after the rejected request, and could run them
    // as requests.
    socket.destroySoon();
  };
  server.on('connect', ({ socket }: IncomingMessage) => {
    // Node removes its own listeners from this socket. Without these listeners, an error would end the process.
    for (const event of ['error', 'timeout']) socket.on(event, () => socket.destroy());
    failConnection(methodNotAllowed('The service', allMethods), socket);
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
      queue.stop(sockets);
      return stop(server, sockets, graceMilliseconds);
    },
  };
}

/**
 * Sends `100 Continue` only when the body is needed. Otherwise the connection closes after the response, because the client
 * may send the body anyway.
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
