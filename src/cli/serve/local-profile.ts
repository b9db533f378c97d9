import type { Service } from '../../server/service.ts';
import type { Context } from '../context.ts';
import { readProfile, writeProfile } from '../profiles/files.ts';

const TIMEOUT_MS = 1_000;

/**
 * Points profile `local` to this service, unless the profile already points to a running service of another store.
 *
 * @returns the URL of that other service, if the profile was not changed
 */
export async function saveLocalProfile(
  context: Context,
  service: Service,
  key: string,
): Promise<string | undefined> {
  const stored = readProfile(context, 'local');
  if (stored && stored.baseUrl !== service.url) {
    const storeId = await fetchStoreId(stored.baseUrl);
    if (storeId !== undefined && storeId !== service.store.id) return stored.baseUrl;
  }
  await writeProfile(context, 'local', { baseUrl: service.url, key });
  return undefined;
}

/** The id of the store that a base URL serves, or undefined if no `pets serve` responds there. */
async function fetchStoreId(baseUrl: string): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(new URL('/healthz', baseUrl), { redirect: 'error', signal });
    const { store } = (await response.json()) as { store?: unknown };
    return typeof store === 'string' ? store : undefined;
  } catch {
    return undefined;
  }
}
