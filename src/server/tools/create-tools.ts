import type { SteadyClock } from '../../contract/clock.ts';
import type { Backend } from '../../store/backend.ts';
import type { Faults } from '../faults/faults.ts';
import type { ToolMethods } from '../routes.ts';
import { createFaultTool } from './fault-tool.ts';
import { createKeyTools } from './keys.ts';
import { createRecorder } from './recorder.ts';
import { createSendAgain, showRequests } from './requests.ts';
import { createReset, type ResetOptions } from './reset.ts';

export type ToolsOptions = ResetOptions & {
  backend: Backend;
  /** The URL of this server without a path. */
  origin: string;
  clock: SteadyClock;
  /** The origins that may use the service; `*` allows every origin. */
  cors: readonly string[];
  /** The log does not show these secrets, wherever they occur. */
  secrets: readonly string[];
  faults: Faults;
  /** Rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
};

/** Creates the developer tools (docs/service.md 13). */
export function createTools({ origin, clock, cors, secrets, faults, sleep, ...options }: ToolsOptions) {
  const { keys, limiter } = options.backend;
  const stopping = new AbortController();
  const recorder = createRecorder({ clock, cors });
  const { gate, withoutReset, show, reset } = createReset(options, recorder.cursor);
  const { showKeys, liftBan } = createKeyTools(keys, limiter);

  const routes: Record<string, ToolMethods> = {
    '/requests': {
      GET: showRequests(recorder, { clock, secrets, sleep, stopping: stopping.signal }),
      POST: createSendAgain(recorder, { origin, keys, limiter, secrets, sleep }),
    },
    '/keys': { GET: withoutReset(showKeys) },
    '/bans': { DELETE: withoutReset(liftBan) },
    '/faults': createFaultTool(faults),
    '/reset': { GET: withoutReset(show), POST: reset },
  };
  return { recorder, resetGate: gate, routes: new Map(Object.entries(routes)), stop: () => stopping.abort() };
}
