import { createServer, type Server, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { App } from './app.ts';
import { ServiceError } from './service-error.ts';

export type Listening = {
  /** `http://host:port`, without the version prefix. */
  origin: string;
  port: number;
  /** Stops accepting, answers what runs, and cuts what is left after `graceMilliseconds`. */
  stop(graceMilliseconds: number): Promise<void>;
};

const LIMITS = {
  headersTimeout: 5_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: 8 * 1024,
};
const IDLE_MILLISECONDS = 30_000;
const MAX_CONNECTIONS = 256;
const SWEEP_MILLISECONDS = 20;

/**
 * Listens with the limits that keep a hostile client from holding the service.
 *
 * @throws the system's error (`EADDRINUSE`, `EACCES`, …) where the address cannot be had
 */
export async function listen(app: App, { host, port }: { host: string; port: number }): Promise<Listening> {
  const server = createServer(LIMITS, app.handle);
  server.maxConnections = MAX_CONNECTIONS;
  server.setTimeout(IDLE_MILLISECONDS);
  server.on('clientError', (error, socket: Socket) => refuse(app, error, socket));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const address = server.address() as AddressInfo;
  return {
    origin: `http://${reachable(host)}:${address.port}`,
    port: address.port,
    stop: (grace) => stop(server, grace),
  };
}

/** A host as a URL has it: one that stands for every address is reached at loopback. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

function stop(server: Server, graceMilliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), graceMilliseconds);
    // A connection whose last request is answered now would else stay open for its keep-alive.
    const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MILLISECONDS);
    server.close(() => {
      clearTimeout(cut);
      clearInterval(sweep);
      resolve();
    });
  });
}

const PARSER_ERRORS: Record<string, ServiceError> = {
  HPE_HEADER_OVERFLOW: new ServiceError('headers_too_large', 'The headers are larger than 8 KiB'),
  ERR_HTTP_REQUEST_TIMEOUT: new ServiceError('request_timeout', 'The request did not arrive in time'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: new ServiceError('payload_too_large', 'The chunk extensions are too large'),
};

/** What Node itself refuses, before there is a request: it too carries the Error body and the three headers. */
async function refuse(app: App, error: NodeJS.ErrnoException, socket: Socket): Promise<void> {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const known =
    PARSER_ERRORS[error.code ?? ''] ?? new ServiceError('invalid_request', 'The request is not valid HTTP');
  const { status, headers, body } = await app.refuse(known, socket.remoteAddress);
  const lines = Object.entries({
    ...headers,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
  }).map(([name, value]) => `${name}: ${value}`);
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
  // Ended alone, the rest of a request that was refused would still be read, and carried out.
  socket.destroySoon();
}
