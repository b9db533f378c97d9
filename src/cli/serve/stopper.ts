import { constants } from 'node:os';
import type { Context } from '../context.ts';

/** The first reason to stop: a signal, or a store that can write no more. `discard` runs before a second signal ends all. */
export function createStopper({ onSignal, exitNow }: Context, discard: () => void) {
  const failure = new AbortController();
  const asked = new AbortController();
  let unlisten = () => {};
  const stopped = new Promise<void>((resolve, reject) => {
    asked.signal.addEventListener('abort', () => resolve());
    failure.signal.addEventListener('abort', () => reject(failure.signal.reason));
  });
  // A failure may come before anybody waits for it.
  stopped.catch(() => {});
  return {
    stopped,
    failure: failure.signal,
    fail: (error: Error) => failure.abort(error),
    /** Aborted with the signal that came first. */
    asked: asked.signal,
    listen() {
      unlisten = onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], (signal) => {
        if (asked.signal.aborted) {
          discard();
          exitNow(128 + constants.signals[signal]);
        }
        asked.abort(signal);
      });
    },
    unlisten: () => unlisten(),
  };
}
