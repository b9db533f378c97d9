import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy on loopback. */
export type DelayingProxy = { port: number; close(): void };

/** Relays connections to a port of this machine, with a round trip that takes at least this long. */
export async function delayingProxy(target: number, roundTripMilliseconds: number): Promise<DelayingProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    relay(client, upstream, roundTripMilliseconds / 2);
    relay(upstream, client, roundTripMilliseconds / 2);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay();
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Forwards bytes after a delay. Timers end in the order in which they were started, so the bytes keep their order. */
function relay(from: Socket, to: Socket, milliseconds: number): void {
  from.on('data', (bytes) => setTimeout(() => to.write(bytes), milliseconds));
  from.on('close', () => setTimeout(() => to.destroy(), milliseconds));
}
