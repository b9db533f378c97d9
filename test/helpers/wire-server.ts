import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { listenOnLoopback } from './listen.ts';

type WireRequest = { line: string; headers: Record<string, string>; body: string };

/** Writes any bytes, or none, in response to a request; `count` is 1 for the first request. */
export type Act = (socket: Socket, count: number, request: WireRequest) => void;

export type WireServer = Awaited<ReturnType<typeof wireServer>>;

/** A server that calls `onConnect` for each connection and `respond` for each complete request. */
export async function wireServer(
  respond: Act,
  onConnect: (socket: Socket, count: number) => void = () => {},
) {
  /** All complete requests in order of arrival. */
  const requests: WireRequest[] = [];
  let connections = 0;
  const server = createHttpServer(async (request) => {
    let body = '';
    for await (const chunk of request.setEncoding('latin1')) body += chunk;
    const line = `${request.method} ${request.url} HTTP/${request.httpVersion}`;
    requests.push({ line, headers: request.headers as Record<string, string>, body });
    respond(request.socket, requests.length, requests.at(-1) as WireRequest);
  });
  server.on('connection', (socket: Socket) => onConnect(socket, ++connections));
  return { ...(await started(server)), requests, connections: () => connections };
}

/** Formats a response with a Content-Length. A body that is not a string is formatted as JSON. */
export function formatResponse(status: number, body: unknown, headers: Record<string, string> = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const fields = {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
    ...headers,
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Status\r\n${lines.join('')}\r\n${text}`;
}

export const reset = (socket: Socket): void => {
  socket.resetAndDestroy();
};

/** A TCP server on a free loopback port. `stop` stops listening; open connections stay open. */
export const rawServer = (handler: (socket: Socket) => void) =>
  started(
    createServer((socket) => {
      socket.on('error', () => {});
      handler(socket);
    }),
  );

async function started(server: Server) {
  const port = await listenOnLoopback(server);
  return { url: `http://127.0.0.1:${port}/v1`, port, stop: () => void server.close() };
}
