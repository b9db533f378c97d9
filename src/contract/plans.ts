import * as z from 'zod/mini';

/** How many requests a caller has, per UTC minute and per UTC day (specification 8.2). */
export type Quota = { perMinute: number; perDay: number };

export const planNames = ['free', 'pro', 'business', 'enterprise'] as const;
export const PlanName = z.enum(planNames, { error: `must be one of ${planNames.join(', ')}` });
export type PlanName = z.infer<typeof PlanName>;

/** The largest quota of a key, far above any traffic and exact in every arithmetic. */
export const MAX_QUOTA = 10 ** 15;

/** Enterprise quotas are agreed for each key; these hold where none were. */
export const plans: Readonly<Record<PlanName, Quota>> = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
  enterprise: { perMinute: 1_000_000_000, perDay: 1_000_000_000_000 },
};
