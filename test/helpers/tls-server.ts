import { readFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { listenOnLoopback } from './listen.ts';

/** The directory of the certificates and the key of the servers (see tls/make.sh). */
export const TLS_DIRECTORY = join(import.meta.dirname, 'tls');

/** The certificate of the authority that signed all certificates except the self-signed one. */
export const AUTHORITY = join(TLS_DIRECTORY, 'ca.pem');

export type Certificate = 'localhost' | 'self-signed' | 'expired' | 'other-host';

/** An HTTPS server on a free loopback port that responds to GET with an empty list and to POST with an animal. */
export async function tlsServer(certificate: Certificate) {
  const [key, cert] = await Promise.all(
    ['server.key', `${certificate}.pem`].map((name) => readFile(join(TLS_DIRECTORY, name))),
  );
  const requests: string[] = [];
  const authorizations: (string | undefined)[] = [];
  let connections = 0;
  const server = createServer({ key, cert }, (request, response) => {
    requests.push(`${request.method} ${request.url}`);
    authorizations.push(request.headers.authorization);
    const isRead = request.method === 'GET';
    response.writeHead(isRead ? 200 : 201, { 'Content-Type': 'application/json' });
    response.end(isRead ? '[]' : '{"id":1,"name":"Rex","categoryId":3}');
  });
  server.on('connection', () => connections++);
  const port = await listenOnLoopback(server);
  return { port, requests, authorizations, connections: () => connections };
}
