import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** How many requests of one connection may wait before no more are read from it. */
const MAX_WAITING = 16;

/** The requests of a connection: the last of them, its answer, and the one before that. */
type Queue = { length: number; request: IncomingMessage; last: Promise<void>; before: Promise<void> };

/**
 * Handles the requests of a connection one after the other. Node hands over pipelined ones at once; but a list that was
 * sent behind a creation must show it (RFC 9112, 9.3.2), and who sends without reading answers must not fill the memory.
 */
export function createTurns(handle: Handle) {
  const queues = new WeakMap<Socket, Queue>();
  const done = Promise.resolve();

  async function run(queue: Queue, request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      // Whoever has gone asks for nothing any more.
      if (!request.socket.destroyed) await handle(request, response);
    } finally {
      queue.length--;
      if (queue.length === MAX_WAITING) request.socket.resume();
    }
  }

  return {
    handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
      const { socket } = request;
      const queue = queues.get(socket) ?? { length: 0, request, last: done, before: done };
      queues.set(socket, queue);
      queue.length++;
      if (queue.length > MAX_WAITING) socket.pause();
      queue.request = request;
      queue.before = queue.last;
      const isFirst = queue.length === 1;
      queue.last = isFirst
        ? run(queue, request, response)
        : queue.before.then(() => run(queue, request, response));
      return queue.last;
    },

    /** Whether nothing waits behind a request that is handled now. */
    isLast: ({ socket }: IncomingMessage): boolean => (queues.get(socket)?.length ?? 0) <= 1,

    /**
     * Waits until everything is answered that came whole before the connection broke.
     *
     * @returns whether an answer is still owed to what broke it
     */
    async settle(socket: Socket): Promise<boolean> {
      const queue = queues.get(socket);
      if (queue === undefined) return true;
      const { request, last, before, length } = queue;
      await (request.complete ? last : before);
      // The rest of a body whose request is answered breaks it: that answer stands.
      return request.complete || length > 0;
    },
  };
}
