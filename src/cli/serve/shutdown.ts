import { once } from 'node:events';
import { constants } from 'node:os';
import type { Context } from '../context.ts';

export type Shutdown = ReturnType<typeof createShutdown>;

/**
 * Watches for the first reason to stop the server: a signal, or a store that can no longer write.
 *
 * @param onForcedExit runs before a second signal ends the process
 */
export function createShutdown({ onSignal, exitNow }: Context, onForcedExit: () => void) {
  const failure = new AbortController();
  const requested = new AbortController();
  let removeListeners = () => {};
  const either = AbortSignal.any([requested.signal, failure.signal]);
  return {
    /** Resolves after a signal. Rejects after a failure with the error passed to `fail`. */
    async stopped(): Promise<void> {
      if (!either.aborted) await once(either, 'abort');
      failure.signal.throwIfAborted();
    },
    fail: (error: Error) => failure.abort(error),
    /** This AbortSignal is aborted with the error passed to `fail`. */
    failure: failure.signal,
    /** This AbortSignal is aborted with the name of the first process signal. */
    requested: requested.signal,
    listen() {
      removeListeners = onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], (signal) => {
        if (requested.signal.aborted) {
          onForcedExit();
          exitNow(128 + constants.signals[signal]);
        }
        requested.abort(signal);
      });
    },
    unlisten: () => removeListeners(),
  };
}
