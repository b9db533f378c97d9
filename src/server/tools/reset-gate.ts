export type ResetGate = ReturnType<typeof createResetGate>;

/** Lets a reset run while no request of the API runs, except requests that wait for their clients. Later requests wait. */
export function createResetGate() {
  let running = 0;
  let onIdle: (() => void) | undefined;
  let reset: Promise<unknown> | undefined;

  async function enter(): Promise<void> {
    while (reset) await reset;
    running++;
  }

  function leave(): void {
    running--;
    if (running === 0) onIdle?.();
  }

  return {
    /** Runs a request. If a reset is running or waits for running requests, the request waits until it has ended. */
    async run<Result>(request: () => Promise<Result>): Promise<Result> {
      await enter();
      try {
        return await request();
      } finally {
        leave();
      }
    },

    /**
     * Waits for a client, in a request that `run` runs. A reset can run meanwhile, so that a slow client does not delay the
     * reset and all other requests.
     */
    async waitForClient<Result>(wait: () => Promise<Result>): Promise<Result> {
      leave();
      try {
        return await wait();
      } finally {
        await enter();
      }
    },

    /** Runs a reset when all running requests have finished. Several resets run one after the other. */
    async exclusive<Result>(task: () => Promise<Result>): Promise<Result> {
      while (reset) await reset;
      const done = (async () => {
        if (running > 0) {
          await new Promise<void>((resolve) => {
            onIdle = resolve;
          });
          onIdle = undefined;
        }
        return task();
      })();
      // A failed reset must not fail the requests that wait for it.
      reset = done.catch(() => {});
      try {
        return await done;
      } finally {
        reset = undefined;
      }
    },
  };
}
