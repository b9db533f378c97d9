import { createServer, type Socket } from 'node:net';
import { listenOnLoopback } from './listen.ts';

/** A TCP server on a free loopback port. `stop` stops listening; open connections stay open. */
export async function rawServer(
  handler: (socket: Socket) => void,
): Promise<{ url: string; port: number; stop(): void }> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    handler(socket);
  });
  const port = await listenOnLoopback(server);
  return { url: `http://127.0.0.1:${port}/v1`, port, stop: () => void server.close() };
}
