import { createServer, type Socket } from 'node:net';
import { listenOnLoopback } from './listen.ts';

/** A request; header names are in lower case. */
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
  const server = await rawServer((socket) => {
    onConnect(socket, ++connections);
    let bytes = '';
    socket.setEncoding('latin1').on('data', (chunk) => {
      if (socket.destroyed) return;
      bytes += chunk;
      for (let read = readRequest(bytes); read !== undefined; read = readRequest(bytes)) {
        bytes = read.rest;
        requests.push(read.request);
        respond(socket, requests.length, read.request);
      }
    });
  });
  return { ...server, requests, connections: () => connections };
}

function readRequest(bytes: string): { request: WireRequest; rest: string } | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [line = '', ...fields] = bytes.slice(0, end).split('\r\n');
  const headers = Object.fromEntries(
    fields.map((field) => {
      const colon = field.indexOf(':');
      return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()];
    }),
  );
  const length = Number(headers['content-length'] ?? 0);
  const rest = bytes.slice(end + 4);
  return rest.length < length
    ? undefined
    : { request: { line, headers, body: rest.slice(0, length) }, rest: rest.slice(length) };
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
export async function rawServer(handler: (socket: Socket) => void) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    handler(socket);
  });
  const port = await listenOnLoopback(server);
  return { url: `http://127.0.0.1:${port}/v1`, port, stop: () => void server.close() };
}
