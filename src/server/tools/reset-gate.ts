export type ResetGate = ReturnType<typeof createResetGate>;

/** Lets a reset run while no request of the API runs. Requests that arrive meanwhile wait. */
export function createResetGate() {
  let running = 0;
  let onIdle: (() => void) | undefined;
  let reset: Promise<unknown> | undefined;

  return {
    /** Runs a request, after a reset that has been started. */
    async run<Result>(request: () => Promise<Result>): Promise<Result> {
      while (reset) await reset;
      running++;
      try {
        return await request();
      } finally {
        running--;
        if (running === 0) onIdle?.();
      }
    },

    /** Runs a reset when all running requests have finished, and resets one after the other. */
    async exclusive(task: () => Promise<void>): Promise<void> {
      while (reset) await reset;
      const done = (async () => {
        if (running > 0) {
          await new Promise<void>((resolve) => {
            onIdle = resolve;
          });
          onIdle = undefined;
        }
        await task();
      })();
      // A failed reset must not fail the requests that wait for it.
      const settled = done.catch(() => {});
      reset = settled;
      try {
        await done;
      } finally {
        reset = undefined;
      }
    },
  };
}
