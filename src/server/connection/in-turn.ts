import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** How many requests of one connection may wait before no more are read from it. */
const MAX_WAITING = 16;

/** The requests of a connection: the last of them, when it is answered, and when the one before it is. */
type Queue = {
  length: number;
  request: IncomingMessage;
  response: ServerResponse;
  last: Promise<void>;
  before: Promise<void>;
  /** Whether its last request has come: what follows on the connection is none. */
  isOver: boolean;
};

/**
 * Handles the requests of a connection one after the other, the next when the answer to the last has left. Node hands
 * over pipelined ones at once; but a list that was sent behind a creation must show it (RFC 9112, 9.3.2), and who sends
 * without reading answers must not fill the memory.
 */
export function createTurns(handle: Handle) {
  const queues = new WeakMap<Socket, Queue>();
  const done = Promise.resolve();
  let isStopping = false;

  async function run(queue: Queue, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    const hasLeft = new Promise((resolve) => response.once('close', resolve));
    try {
      // Who has gone asks for nothing any more, and who was told that the connection ends gets no further answer.
      if (!socket.writable) return;
      await handle(request, response);
      await hasLeft;
    } finally {
      queue.length--;
      // Node reads on when it lays a request aside that is answered.
      if (queue.isOver || queue.length > MAX_WAITING) socket.pause();
      else if (queue.length === MAX_WAITING) socket.resume();
    }
  }

  return {
    async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
      const { socket } = request;
      const queue = queues.get(socket) ?? {
        length: 0,
        request,
        response,
        last: done,
        before: done,
        isOver: false,
      };
      queues.set(socket, queue);
      if (queue.isOver) {
        socket.pause();
        return;
      }
      if (isStopping || endsConnection(request, response)) {
        queue.isOver = true;
        response.setHeader('Connection', 'close');
      }
      queue.length++;
      if (queue.length > MAX_WAITING) socket.pause();
      Object.assign(queue, { request, response });
      queue.before = queue.last;
      queue.last =
        queue.length === 1
          ? run(queue, request, response)
          : // Others come first: a connection that has sent a thousand requests gets one answer a round.
            queue.before.then(nextRound).then(() => run(queue, request, response));
      await queue.last;
    },

    /** From here on every request is the last of its connection. */
    stop() {
      isStopping = true;
    },

    /** Whether nothing waits behind a request that is handled now. */
    isLast: ({ socket }: IncomingMessage): boolean => (queues.get(socket)?.length ?? 0) <= 1,

    /**
     * Waits until everything is answered that came whole before the connection broke.
     *
     * @returns what is owed to what broke it: the answer to a request whose rest it was, an answer of its own, or none
     */
    async settle(socket: Socket): Promise<ServerResponse | 'answer' | 'nothing'> {
      const queue = queues.get(socket);
      if (queue === undefined) return 'answer';
      const { request, response, last, before, isOver } = queue;
      await (request.complete ? last : before);
      if (!request.complete) return response.headersSent ? 'nothing' : response;
      // Behind the last request of a connection comes none.
      return isOver ? 'nothing' : 'answer';
    },
  };
}

const nextRound = () => new Promise<void>((resolve) => setImmediate(resolve));

/**
 * Whether a connection ends with the answer to this request. Node loses what follows an Upgrade that nobody wants, and
 * HTTP/1.0 has no chunks: where the next request begins is a guess then (RFC 9112, 6.1).
 */
export const endsConnection = (
  { headers, httpVersion }: IncomingMessage,
  response: ServerResponse,
): boolean =>
  !response.shouldKeepAlive ||
  headers.upgrade !== undefined ||
  (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined);
