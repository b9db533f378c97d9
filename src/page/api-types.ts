// What the developer tools send (docs/service.md 13).
export type { FaultSettings } from '../server/faults/fault-settings.ts';
export type {
  DescribedRequest as WholeRequest,
  DescribedRunning as RunningRequest,
  RequestSummary as LoggedRequest,
} from '../server/tools/log-entry.ts';

/** Requests of pages that may not use the service. */
export type OtherOrigins = { requests: number; origin: string; time: string };

type Window = { limit: number; used: number; left: number; endsAt: string };
export type Key = { name: string; plan: string; minute?: Window; day?: Window; bannedUntil?: string };
export type Keys = { keys: readonly Key[]; total: number };

/** What a reset would do; `seed` is what replaces the animals. */
export type ResetPlan = {
  allowed: boolean;
  reason?: string;
  animals: number;
  location: string;
  seed?: string;
};
