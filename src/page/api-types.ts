// What the developer tools send (docs/testing.md).
import type { createFaults } from '../server/faults.ts';

export type Faults = ReturnType<ReturnType<typeof createFaults>['current']>;
export type {
  DescribedRequest as WholeRequest,
  DescribedRunningRequest as RunningRequest,
  RequestSummary as LoggedRequest,
} from '../server/tools/log-entry.ts';

type Window = { limit: number; used: number; left: number; endsAt: string };
export type Key = { name: string; plan: string; minute?: Window; day?: Window; bannedUntil?: string };
/** `time` is that of the server, because the clock of the browser may be wrong. */
export type Keys = { keys: readonly Key[]; total: number; time: string };

/** What a reset would do. `reason` says why it is not allowed, and `seed` names what replaces the animals. */
export type ResetPlan = {
  allowed: boolean;
  reason?: string;
  animals: number;
  location: string;
  seed?: string;
};
