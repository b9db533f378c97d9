// What the developer tools send (docs/service.md 13).
import type { FaultSettings } from '../server/faults/fault-settings.ts';
import type { DescribedRequest, DescribedRunning, RequestSummary } from '../server/tools/log-entry.ts';

export type { DescribedRunning as RunningRequest, FaultSettings };

/** A request as `GET /requests` shows it (docs/service.md 13.1). */
export type LoggedRequest = RequestSummary & { again?: number; notAgain?: string };
/** A request with its headers and bodies. */
export type WholeRequest = LoggedRequest & Pick<DescribedRequest, 'request' | 'response'>;
/** Requests of pages that may not use the service. */
export type OtherOrigins = { requests: number; origin: string; time: string };

type Window = { limit: number; used: number; left: number; endsAt: string };
export type Key = { name: string; plan: string; minute?: Window; day?: Window; bannedUntil?: string };
export type Keys = { keys: readonly Key[]; total: number };

/** What a reset would do; `seed` is what takes the place of the animals. */
export type ResetPlan = { allowed: boolean; reason?: string; animals: number; place: string; seed?: string };
