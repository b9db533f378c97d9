import * as z from 'zod/mini';

/** Requests that an API key may make per UTC minute and per UTC day (docs/service.md 8.2). */
export type Quota = { perMinute: number; perDay: number };

export const planNames = ['free', 'pro', 'business', 'enterprise'] as const;
export const PlanName = z.enum(planNames, { error: `must be one of ${planNames.join(', ')}` });
export type PlanName = z.infer<typeof PlanName>;

/** The largest quota: far above any real traffic, and small enough for exact arithmetic. */
export const MAX_QUOTA = 10 ** 15;

/** The quotas of each plan. Those of enterprise are defaults, because an enterprise key can have its own quota. */
export const plans: Readonly<Record<PlanName, Quota>> = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
  enterprise: { perMinute: 1_000_000_000, perDay: 1_000_000_000_000 },
};
