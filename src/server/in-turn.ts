import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** How many requests of one connection may wait before no more are read from it. */
const MAX_WAITING = 16;

/**
 * Handles the requests of a connection one after the other. Node hands over pipelined ones at once; but a list that was
 * sent behind a creation must show it (RFC 9112, 9.3.2), and who sends without reading answers must not fill the memory.
 */
export function inTurn(handle: Handle): Handle {
  const queues = new WeakMap<Socket, { last: Promise<void>; length: number }>();
  return (request, response) => {
    const { socket } = request;
    const queue = queues.get(socket) ?? { last: Promise.resolve(), length: 0 };
    queues.set(socket, queue);
    const run = async () => {
      try {
        // Whoever has gone asks for nothing any more.
        if (!socket.destroyed) await handle(request, response);
      } finally {
        queue.length--;
        if (queue.length === MAX_WAITING) socket.resume();
      }
    };
    queue.length++;
    if (queue.length > MAX_WAITING) socket.pause();
    queue.last = queue.length === 1 ? run() : queue.last.then(run);
    return queue.last;
  };
}
