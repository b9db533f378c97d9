import type { KeyDirectory } from '../../store/backend.ts';
import type { Limiter } from '../../store/limits/limiter.ts';
import type { Handler } from '../response.ts';

export const MAX_KEYS = 200;

/** `GET /keys` (docs/service.md 13.3). */
export const keysTool =
  (keys: Pick<KeyDirectory, 'list'>, limiter: Pick<Limiter, 'usage'>): Handler =>
  async () => {
    const all = await keys.list();
    const shown = all.slice(0, MAX_KEYS);
    const usages = await limiter.usage(shown.map(({ sha256 }) => sha256));
    const described = shown.map(({ name, plan, quota }, i) => {
      const usage = usages[i];
      return {
        name,
        plan,
        minute: usage && describeWindow(quota.perMinute, usage.minute),
        day: usage && describeWindow(quota.perDay, usage.day),
        ...(usage?.bannedUntil !== undefined && { bannedUntil: instant(usage.bannedUntil) }),
      };
    });
    return { status: 200, body: JSON.stringify({ keys: described, total: all.length }) };
  };

const describeWindow = (limit: number, { used, endsAt }: { used: number; endsAt: number }) => ({
  limit,
  used,
  endsAt: instant(endsAt),
});

const instant = (milliseconds: number): string => new Date(milliseconds).toISOString();
