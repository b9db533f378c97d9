// What the developer tools send (docs/testing.md).
import type { createFaults } from '../server/faults.ts';
import type { createTools } from '../server/tools/tools.ts';

type Tools = ReturnType<typeof createTools>;
export type Faults = ReturnType<ReturnType<typeof createFaults>['current']>;
export type Keys = Awaited<ReturnType<Tools['describeKeys']>>;
export type ResetPlan = Awaited<ReturnType<Tools['describeReset']>>;
export type {
  DescribedRequest as WholeRequest,
  RequestSummary as LoggedRequest,
} from '../server/tools/log-entry.ts';
