import * as z from 'zod/mini';
import type { KeyDirectory } from '../../store/backend.ts';
import type { Limiter } from '../../store/limits/limiter.ts';
import { ServiceError } from '../errors.ts';
import type { Handler, ServiceResponse } from '../response.ts';
import { readQuery } from './requests.ts';

export const MAX_KEYS = 200;

const BanQuery = z.object({ key: z.string({ error: 'must be the name of a key' }) });

/** `GET /keys` and `DELETE /bans` (docs/service.md 13.3). */
export function createKeyTools(
  keys: Pick<KeyDirectory, 'list'>,
  limiter: Pick<Limiter, 'usage' | 'liftBan'>,
): Record<'showKeys' | 'liftBan', Handler> {
  async function showKeys(): Promise<ServiceResponse> {
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
  }

  return {
    showKeys,
    async liftBan({ url }) {
      const { key } = readQuery(BanQuery, url);
      const found = (await keys.list()).find(({ name }) => name === key);
      if (found === undefined) throw new ServiceError('not_found', `There is no key with the name ${key}`);
      await limiter.liftBan(found.sha256);
      return showKeys();
    },
  };
}

const describeWindow = (limit: number, { used, endsAt }: { used: number; endsAt: number }) => ({
  limit,
  used,
  left: Math.max(0, limit - used),
  endsAt: instant(endsAt),
});

const instant = (milliseconds: number): string => new Date(milliseconds).toISOString();
