import type { Backend } from '../../store/backend.ts';
import type { Seed } from '../../store/store.ts';
import type { Faults } from '../faults/faults.ts';
import type { Handler } from '../response.ts';
import type { ToolMethods } from '../routes.ts';
import { createFaultTool } from './fault-tool.ts';
import { createKeyTools } from './keys.ts';
import { createRecorder } from './recorder.ts';
import { createWaiters, requestsRoute } from './requests.ts';
import { createResetGate, type ResetGate } from './reset-gate.ts';
import { createResetTool, type ResetResult } from './reset-tool.ts';

export type ToolsOptions = {
  /** The log does not show these secrets, wherever they occur. */
  secrets: readonly string[];
  backend: Backend;
  faults: Faults;
  /** Whether `POST /reset` may replace the contents of the store by those of the seed. */
  resettable: boolean;
  /** Reads the seed, once for each reset; without it, a reset empties the store. */
  seed: (() => Promise<Seed>) | undefined;
  /** Called after the store was reset, while no request of the API runs. */
  onReset(): void;
  /** Rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
};

/** Creates the developer tools (docs/service.md 13). */
export function createTools({ secrets, backend, faults, resettable, seed, onReset, sleep }: ToolsOptions) {
  const { keys, limiter } = backend;
  const waiters = createWaiters(sleep);
  const recorder = createRecorder(waiters.notify);
  const resetGate = resettable ? createResetGate() : undefined;

  /** Resets the store while `gate` lets no request of the API run. */
  async function reset(gate: ResetGate): Promise<ResetResult> {
    const contents = (await seed?.()) ?? { pets: [], orders: [] };
    return gate.exclusive(async () => {
      await backend.reset(contents);
      onReset();
      // Requests that wait for the reset get later positions.
      return { animals: contents.pets.length, cursor: recorder.cursor() };
    });
  }

  /** A tool that uses the store. Like a request of the API, it does not run during a reset. */
  const withoutReset =
    (handler: Handler): Handler =>
    (request, context) =>
      resetGate ? resetGate.run(async () => handler(request, context)) : handler(request, context);
  const { showKeys, liftBan } = createKeyTools(keys, limiter);

  const routes: Record<string, ToolMethods> = {
    '/requests': requestsRoute(recorder, waiters, secrets),
    '/keys': { GET: withoutReset(showKeys) },
    '/bans': { DELETE: withoutReset(liftBan) },
    '/faults': createFaultTool(faults),
    '/reset': createResetTool(resetGate && (() => reset(resetGate))),
  };
  return { recorder, resetGate, routes: new Map(Object.entries(routes)), stop: waiters.stop };
}
