import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Awaitable, next } from '../awaitable.ts';

type Handle = (request: IncomingMessage, response: ServerResponse) => Awaitable<void>;

/** How many requests of one connection may wait before no more are read from it. */
const MAX_WAITING = 16;

/** A request that has come, until its answer has left. */
type Turn = { request: IncomingMessage; response: ServerResponse; isOver: boolean; onOver?: () => void };

/** The turns of a connection that are not over, the first of them running. */
type Queue = {
  turns: Turn[];
  /** The last that has come, also when it is over. */
  last?: Turn;
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
  let isStopping = false;

  function queueOf(socket: Socket): Queue {
    const known = queues.get(socket);
    if (known) return known;
    const queue: Queue = { turns: [], isOver: false };
    queues.set(socket, queue);
    return queue;
  }

  function begin(queue: Queue): void {
    const [turn] = queue.turns;
    if (turn === undefined) return;
    const { request, response } = turn;
    // Who has gone asks for nothing any more, and who was told that the connection ends gets no further answer.
    if (!request.socket.writable) {
      finish(queue, turn);
      return;
    }
    // It is over when it is handled and the answer has left, whichever is the last.
    let awaited = 2;
    const done = () => {
      if (--awaited === 0) finish(queue, turn);
    };
    response.once('close', done);
    next(handle(request, response), done);
  }

  function finish(queue: Queue, turn: Turn): void {
    const { turns } = queue;
    const { socket } = turn.request;
    turns.shift();
    turn.isOver = true;
    turn.onOver?.();
    // Node reads on when it lays a request aside that is answered.
    if (queue.isOver || turns.length > MAX_WAITING) socket.pause();
    else if (turns.length === MAX_WAITING) socket.resume();
    // Others come first: a connection that has sent a thousand requests gets one answer a round.
    if (turns.length > 0) setImmediate(begin, queue);
  }

  return {
    handle(request: IncomingMessage, response: ServerResponse): void {
      const { socket } = request;
      const queue = queueOf(socket);
      if (queue.isOver) {
        socket.pause();
        return;
      }
      if (isStopping || endsConnection(request, response)) {
        queue.isOver = true;
        response.setHeader('Connection', 'close');
      }
      queue.last = { request, response, isOver: false };
      queue.turns.push(queue.last);
      if (queue.turns.length > MAX_WAITING) socket.pause();
      if (queue.turns.length === 1) begin(queue);
    },

    /** From here on every request is the last of its connection. */
    stop() {
      isStopping = true;
    },

    /** Whether nothing waits behind a request that is handled now. */
    isLast: ({ socket }: IncomingMessage): boolean => (queues.get(socket)?.turns.length ?? 0) <= 1,

    /**
     * Waits until everything is answered that came whole before the connection broke.
     *
     * @returns what is owed to what broke it: the answer to a request whose rest it was, an answer of its own, or none
     */
    async settle(socket: Socket): Promise<ServerResponse | 'answer' | 'nothing'> {
      const { turns = [], last, isOver } = queues.get(socket) ?? {};
      if (last === undefined) return 'answer';
      const { request, response } = last;
      const awaited = request.complete ? last : turns[turns.indexOf(last) - 1];
      if (awaited && !awaited.isOver) {
        await new Promise<void>((resolve) => {
          awaited.onOver = resolve;
        });
      }
      if (!request.complete) return response.headersSent ? 'nothing' : response;
      // Behind the last request of a connection comes none.
      return isOver ? 'nothing' : 'answer';
    },
  };
}

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
