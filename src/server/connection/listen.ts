import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestListener,
  type Server,
  ServerResponse,
} from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import type { App } from '../app.ts';
import { methodNotAllowed } from '../refusals.ts';
import { allMethods } from '../router.ts';
import type { ServiceError } from '../service-error.ts';
import { createTurns, endsConnection } from './in-turn.ts';
import { type ParserError, refusalOf, refuse } from './refuse.ts';

export type Listening = {
  /** `http://host:port`, without the version prefix. */
  origin: string;
  port: number;
  /** Stops accepting, answers what runs, and cuts what is left after `graceMilliseconds`. */
  stop(graceMilliseconds: number): Promise<void>;
};

/** What keeps a hostile client from holding the service: times in milliseconds. */
export const LIMITS = {
  /** From the first byte, or from the connection on. */
  headersTimeout: 5_000,
  requestTimeout: 15_000,
  idleTimeout: 30_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: 8 * 1024,
  maxConnections: 256,
};
const SWEEP_MILLISECONDS = 100;

export type ListenOptions = { host: string; port: number; limits?: Partial<typeof LIMITS> | undefined };

/**
 * Listens, within limits.
 *
 * @throws the system's error (`EADDRINUSE`, `EACCES`, …) where the address cannot be had
 */
export async function listen(app: App, { host, port, limits = {} }: ListenOptions): Promise<Listening> {
  const { idleTimeout, maxConnections, ...timeouts } = { ...LIMITS, ...limits };
  const turns = createTurns(app.handle);
  let isStopping = false;
  class Response<Request extends IncomingMessage> extends ServerResponse<Request> {
    override writeHead(status: number, reason?: unknown, headers?: unknown): this {
      // A client that is told sends no further request into a connection that is about to close.
      if (isStopping && turns.isLast(this.req)) this.setHeader('Connection', 'close');
      return super.writeHead(status, reason as string, headers as OutgoingHttpHeaders);
    }
  }
  // The app itself asks for the Host header: Node's own refusal has no body.
  const server = createServer({ ...timeouts, requireHostHeader: false, ServerResponse: Response });
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  // A client that has sent all it wants may close its side, and still waits for its answers.
  Object.assign(server, { httpAllowHalfOpen: true, maxConnections });
  // Node would leave out those above a thousand without a word; their size is limited.
  server.maxHeadersCount = 0;
  server.setTimeout(idleTimeout);
  const broken = new WeakSet<Socket>();
  server.on('request', turns.handle);
  server.on('checkContinue', invite(turns.handle));
  server.on('checkExpectation', turns.handle);
  const refuseInTurn = async (error: ServiceError, socket: Socket) => {
    // What follows the first error on a connection is no request, whatever it looks like.
    if (broken.has(socket)) return;
    broken.add(socket);
    socket.pause();
    // Where the client has closed its side, Node would end the connection behind the last good answer.
    socket.removeAllListeners('end');
    const owed = await turns.settle(socket);
    // Whoever waits for the rest of that request is told that none comes.
    if (typeof owed === 'object') socket.once('close', () => owed.req.destroy());
    if (owed !== 'nothing' && socket.writable) await refuse(app, error, socket, owed);
    // Ended alone, the rest of a request that was refused would still be read, and carried out.
    socket.destroySoon();
  };
  server.on('connect', ({ socket }: IncomingMessage) => {
    // Node has taken its own listeners off: an error that nobody hears ends the process, and nobody ends what idles.
    for (const event of ['error', 'timeout']) socket.on(event, () => socket.destroy());
    refuseInTurn(methodNotAllowed('The service', allMethods), socket);
  });
  server.on('clientError', (error: ParserError, socket: Socket) => {
    if (error.code === 'ECONNRESET') socket.destroy();
    else refuseInTurn(refusalOf(error), socket);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const address = server.address() as AddressInfo;
  return {
    origin: `http://${reachable(host)}:${address.port}`,
    port: address.port,
    stop(grace) {
      isStopping = true;
      turns.stop();
      return stop(server, sockets, grace);
    },
  };
}

/**
 * Asks for the body of an `Expect: 100-continue` only once it is wanted: a request that is refused before never sends
 * it. Whether it does so all the same nobody can know, so that the connection ends with that answer.
 */
function invite(handle: RequestListener): RequestListener {
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

/** A host as a URL has it: one that stands for every address is reached at loopback. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

function stop(server: Server, sockets: ReadonlySet<Socket>, graceMilliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => {
      // Node's own list leaves out what was a CONNECT.
      for (const socket of sockets) socket.destroy();
    }, graceMilliseconds);
    // Not at once: what is on its way to an idle connection is still answered.
    const sweep = setInterval(() => {
      // Node does not count as idle what has never sent a byte, as browsers open connections to have them.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      // And counts as idle what still has an answer to take: cut now, the rest of it would be lost.
      if (![...sockets].some(({ writableLength }) => writableLength > 0)) server.closeIdleConnections();
    }, SWEEP_MILLISECONDS);
    // The close of an HTTP server cuts idle connections at once, and ends its watch over slow requests.
    NetServer.prototype.close.call(server, () => {
      clearTimeout(cut);
      clearInterval(sweep);
      // Nothing is left to watch: the timer of that watch would keep the service in memory.
      server.close();
      resolve();
    });
  });
}
