import type { Quota } from '../../contract/plans.ts';
import { countIn, decide, type RateLimitDecision } from '../limits/limiter.ts';
import type { CallerState, LimitCalls } from './limit-calls.ts';

/** A request to count; with `count` 0, the counts are only read. */
export type Take = { caller: string; quota: Quota; count: 0 | 1 };

/** The decision about a request, and what the database reported about its caller. */
export type Taken = { caller: string; state: CallerState; decision: RateLimitDecision };

/** Counts requests in one call to the database. Returns a decision for each request, in the same order. */
export async function takeBatch(takes: readonly Take[], calls: Pick<LimitCalls, 'take'>): Promise<Taken[]> {
  const groups = new Map<string, { quota: Quota; count: number }>();
  for (const { caller, quota, count } of takes) {
    const group = groups.get(caller);
    if (group) group.count += count;
    else groups.set(caller, { quota, count });
  }
  const states = await calls.take([...groups].map(([caller, group]) => ({ caller, ...group })));
  const decided = new Map<string, number>();
  return takes.map((take) => {
    const { caller, count } = take;
    const state = states.get(caller);
    if (!state) throw new Error('the database returned no counts for a caller');
    const earlier = decided.get(caller) ?? 0;
    decided.set(caller, earlier + count);
    return { caller, state, decision: decideOne(take, state, earlier) };
  });
}

/** The decision about a request, after `earlier` requests of the same caller in the same call. */
function decideOne({ quota, count }: Take, state: CallerState, earlier: number): RateLimitDecision {
  const { minute, day, granted, bannedUntil, now } = state;
  const later = Math.max(0, granted - earlier);
  const counts = {
    minute: { ...minute, used: minute.used - later },
    day: { ...day, used: day.used - later },
  };
  const decision = decide(counts, quota, bannedUntil > now ? bannedUntil : undefined, now);
  if (decision.retryAt === undefined) countIn(decision, count);
  return decision;
}
