import type { PlanName } from '../../contract/plans.ts';

/** What `pets serve` was asked for. */
export type ServeOptions = {
  port?: number;
  host: string;
  data?: string;
  ephemeral?: boolean;
  /** True without a file: the sample animals. */
  seed?: string | true;
  plan: PlanName;
  profile: boolean;
  /** Milliseconds. */
  latency?: { min: number; max: number };
  failRate?: number;
  faultSeed?: number;
  banAfter: number;
  /** Seconds. */
  banFor: number;
  limitFailedKeys?: boolean;
  allowHost?: string[];
  cors?: string[];
  log?: boolean;
  quiet?: boolean;
  command: string[];
};
