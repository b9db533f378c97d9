import { createServer, request as forward, type IncomingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { listenOnLoopback } from './listen.ts';

/** A proxy on a free loopback port. It forwards requests to port `upstream`, or responds with the status `refuse`. */
export async function proxyServer(upstream: number, { refuse }: { refuse?: number } = {}) {
  /** The requests in order, such as `GET http://…` or `CONNECT host:port`. `headers` has the headers of each one. */
  const requests: string[] = [];
  const headers: IncomingHttpHeaders[] = [];
  /** All bytes that clients sent through tunnels. */
  const chunks: Buffer[] = [];
  const server = createServer((incoming, outgoing) => {
    requests.push(`${incoming.method} ${incoming.url}`);
    headers.push(incoming.headers);
    if (refuse !== undefined) {
      outgoing.writeHead(refuse, { 'Content-Type': 'text/html' }).end('<html>refused</html>');
      return;
    }
    const { pathname, search } = new URL(incoming.url ?? '');
    const options = {
      port: upstream,
      method: incoming.method,
      path: pathname + search,
      headers: incoming.headers,
    };
    const request = forward(options, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(outgoing);
    });
    request.on('error', () => outgoing.destroy());
    incoming.pipe(request);
  });
  server.on('connect', (incoming, socket) => {
    requests.push(`CONNECT ${incoming.url}`);
    headers.push(incoming.headers);
    socket.on('error', () => {});
    if (refuse !== undefined) {
      socket.end(`HTTP/1.1 ${refuse} Refused\r\n\r\n`);
      return;
    }
    const tunnel = connect(upstream, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.on('data', (chunk) => chunks.push(chunk));
      socket.pipe(tunnel).pipe(socket);
    });
    tunnel.on('error', () => socket.destroy());
  });
  const port = await listenOnLoopback(server);
  const tunnelled = () => Buffer.concat(chunks).toString('latin1');
  return { url: `http://127.0.0.1:${port}`, port, requests, headers, tunnelled };
}
