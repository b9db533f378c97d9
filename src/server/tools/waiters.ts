import type { Socket } from 'node:net';
import { ServiceError } from '../http-errors.ts';
import type { RecordedRequest } from './recorder.ts';

/** How many requests may wait at a time. Each of them occupies a connection. */
export const MAX_WAITERS = 32;

export type Matches = (recorded: RecordedRequest) => boolean;

export type Waiters = ReturnType<typeof createWaiters>;

/** Lets `GET /requests` wait until a matching request is recorded. `sleep` rejects when the signal is aborted. */
export function createWaiters(sleep: (milliseconds: number, signal: AbortSignal) => Promise<void>) {
  const waiters = new Map<AbortController, Matches>();
  let isStopping = false;

  return {
    /**
     * Waits until a request matches. Also ends after `milliseconds`, when the client closes its side of the connection, and
     * when the server stops.
     *
     * @throws ServiceError 503 if too many requests wait
     */
    async wait(matches: Matches, milliseconds: number, socket: Socket): Promise<void> {
      if (isStopping || socket.destroyed || socket.readableEnded) return;
      if (waiters.size >= MAX_WAITERS) {
        throw new ServiceError(
          'too_many_connections',
          `${MAX_WAITERS} requests are waiting, which is the limit`,
        );
      }
      const waiter = new AbortController();
      const end = () => waiter.abort();
      waiters.set(waiter, matches);
      // A client that gives up may only have closed its sending side, as far as the server can see.
      for (const event of ['end', 'close']) socket.once(event, end);
      await sleep(milliseconds, waiter.signal).catch(() => {});
      for (const event of ['end', 'close']) socket.off(event, end);
      waiters.delete(waiter);
    },

    /** Ends the waits that match a new request. `read` returns the request, and is called only if there are waits. */
    notify(read: () => RecordedRequest | undefined): void {
      if (waiters.size === 0) return;
      const added = read();
      for (const [waiter, matches] of waiters) if (added && matches(added)) waiter.abort();
    },

    /** Ends all waits. Later waits end at once. */
    stop(): void {
      isStopping = true;
      for (const waiter of waiters.keys()) waiter.abort();
    },
  };
}
