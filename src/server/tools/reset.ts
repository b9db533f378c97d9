import type { Backend } from '../../store/backend.ts';
import type { Seed } from '../../store/store.ts';
import { ServiceError } from '../errors.ts';
import type { Latencies } from '../faults/faults.ts';
import type { Handler } from '../response.ts';

export type ResetOptions = {
  backend: Pick<Backend, 'store' | 'reset'>;
  /** The directory or the database of the store, as people know it. */
  location: string;
  /** Whether the contents of the store may be replaced with those of the seed. */
  resettable: boolean;
  /** Reads the seed, once for each reset; without it, a reset empties the store. */
  seed: (() => Promise<Seed>) | undefined;
  /** What people call the seed. */
  seedName: string | undefined;
  /** The injected latencies, which a reset ends. */
  latencies: Pick<Latencies, 'end' | 'resume'>;
  /** Called after the store was reset, while no request of the API runs. */
  onReset(): void;
};

const FORBIDDEN = 'This store cannot be reset. Start the server with --resettable or --ephemeral';

/** `GET /reset` and `POST /reset` (docs/service.md 13.2). `cursor` returns the position after the latest request in the log. */
export function createReset(
  { backend, location, resettable, seed, seedName, latencies, onReset }: ResetOptions,
  cursor: () => string,
) {
  const gate = createResetGate(latencies);

  const show: Handler = async () => ({
    status: 200,
    body: JSON.stringify({
      allowed: resettable,
      ...(!resettable && { reason: FORBIDDEN }),
      animals: await backend.store.size(),
      location,
      ...(seed && { seed: seedName ?? 'the seed' }),
    }),
  });

  const reset: Handler = async () => {
    if (!resettable) throw new ServiceError('forbidden', FORBIDDEN);
    const contents = (await seed?.()) ?? { pets: [], orders: [] };
    const result = await gate.exclusive(async () => {
      await backend.reset(contents);
      onReset();
      // Requests that wait for the reset get later positions.
      return { animals: contents.pets.length, cursor: cursor() };
    });
    return { status: 200, body: JSON.stringify(result) };
  };

  return {
    /** Undefined if the store cannot be reset. */
    gate: resettable ? gate : undefined,
    /** Makes a tool wait for a running reset, as requests of the API do. */
    withoutReset: (handler: Handler): Handler =>
      resettable ? (request, context) => gate.run(async () => handler(request, context)) : handler,
    show,
    reset,
  };
}

export type ResetGate = ReturnType<typeof createResetGate>;

/**
 * Lets a reset run while no request of the API runs, except requests that wait for their clients. Later requests wait. The
 * injected latencies of running requests end at once.
 */
export function createResetGate({ end, resume }: Pick<Latencies, 'end' | 'resume'>) {
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
            end();
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
        resume();
      }
    },
  };
}
