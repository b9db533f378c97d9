import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** How many refused connections may be open at a time. Further ones are closed without a response. */
const MAX_REFUSED = 256;

export type ConnectionLimit = {
  /** How many connections the server serves at a time. */
  maxConnections: number;
  /** The longest time that a refused connection stays open, in milliseconds. */
  refusalTimeout: number;
  /** Called for each refused connection, also if it is closed without a response. */
  onRefused?: (() => void) | undefined;
};

/**
 * Limits the number of connections that a server serves. For a further connection, calls `respond` when the client has
 * sent something, because some clients do not expect a response earlier. After `refusalTimeout`, calls `respond` anyway
 * and closes the connection.
 *
 * @returns all open connections, including refused ones
 */
export function limitConnections(
  server: Server,
  { maxConnections, refusalTimeout, onRefused }: ConnectionLimit,
  respond: (socket: Socket) => Promise<void>,
): ReadonlySet<Socket> {
  const open = new Set<Socket>();
  const refused = new Set<Socket>();
  // Node's own limit closes connections without a response. Replace Node's listener, so that Node does not handle
  // requests of refused connections.
  const [serve] = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => {
      open.delete(socket);
      refused.delete(socket);
    });
    if (open.size - refused.size <= maxConnections) return serve?.call(server, socket);
    refused.add(socket);
    onRefused?.();
    refuse(socket);
  });

  function refuse(socket: Socket): void {
    socket.on('error', () => socket.destroy());
    if (refused.size > MAX_REFUSED) {
      socket.destroy();
      return;
    }
    // Keep reading after the response. If the rest of the request were unread when the connection is closed, the client's
    // system could discard the response.
    socket.resume();
    let response: Promise<void> | undefined;
    const sendResponse = () => {
      response ??= respond(socket).then(() => void socket.end());
      return response;
    };
    socket.once('data', sendResponse);
    const timer = setTimeout(() => sendResponse().then(() => socket.destroy()), refusalTimeout);
    socket.once('close', () => clearTimeout(timer));
  }
  return open;
}
