import { connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';

/** A TCP server that relays connections to another port, which a test can change. */
export type MovableRelay = {
  server: Server;
  /** Relays new connections to this port. Ends the present ones, as a load balancer does when a server has failed. */
  moveTo(port: number): void;
};

/** @param delay how much later data arrives in each direction, in milliseconds */
export function createMovableRelay(firstPort: number, delay = 0): MovableRelay {
  let target = firstPort;
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    const upstream = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      from.setNoDelay();
      open.add(from);
      from
        .on('error', () => {})
        .on('close', () => {
          open.delete(from);
          to.destroy();
        });
      if (delay > 0) from.pipe(delayData(delay)).pipe(to);
      else from.pipe(to);
    }
  });
  return {
    server,
    moveTo(port) {
      target = port;
      for (const socket of open) socket.destroy();
    },
  };
}

const delayData = (delay: number): Transform =>
  new Transform({
    transform: (chunk, _encoding, done) => void setTimeout(() => done(null, chunk), delay),
  });
