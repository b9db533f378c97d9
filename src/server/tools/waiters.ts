import type { Socket } from 'node:net';
import { ServiceError } from '../http-errors.ts';
import type { RecordedRequest } from './recorder.ts';

/** How many requests may wait for a further request. Each of them occupies a connection. */
export const MAX_WAITERS = 32;

export type Matches = (recorded: RecordedRequest) => boolean;

export type Waiters = ReturnType<typeof createWaiters>;

/** Lets requests wait for other requests. `sleep` rejects when the signal is aborted. */
export function createWaiters(sleep: (milliseconds: number, signal: AbortSignal) => Promise<void>) {
  const waiters = new Map<AbortController, Matches>();
  let isStopping = false;

  return {
    /**
     * Waits until a request matches, but no longer than `milliseconds`, than the connection exists, or than the server runs.
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

    /** Ends the waits for which a new request matches. Calls `read` only if there are waits. */
    notify(read: () => RecordedRequest | undefined): void {
      if (waiters.size === 0) return;
      const added = read();
      for (const [waiter, matches] of waiters) if (added && matches(added)) waiter.abort();
    },

    /** Ends all waits. */
    stop(): void {
      isStopping = true;
      for (const waiter of waiters.keys()) waiter.abort();
    },
  };
}
