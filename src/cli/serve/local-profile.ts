import { API_PREFIX } from '../../contract/operations.ts';
import type { Service } from '../../server/service.ts';
import type { Context } from '../context.ts';
import { readProfile, writeProfile } from '../profiles/files.ts';
import { DEFAULT_PORT, isLoopbackUrl } from '../profiles/profile.ts';
import { checkUrl } from '../profiles/resolve.ts';
import type { CommandContext } from '../program/command.ts';

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
  // Without a change, nothing is written, so that the disk may be full or read-only.
  if (stored?.baseUrl === service.url && stored.key === key) return undefined;
  await writeProfile(context, 'local', { baseUrl: service.url, key });
  return undefined;
}

/**
 * The base URL for a new key of profile `local`: `--base-url`, or else the profile's base URL if it is on this machine, or
 * else the default of `pets serve`.
 */
export function readLocalBaseUrl(context: CommandContext): string {
  const given = context.globals.baseUrl;
  if (given !== undefined) return checkUrl(given, '--base-url');
  const stored = readProfile(context, 'local')?.baseUrl;
  // The user may have pointed the profile to another machine, which must not get a key of the local store.
  const isLocal = stored !== undefined && isLoopbackUrl(new URL(stored));
  return isLocal ? stored : `http://127.0.0.1:${DEFAULT_PORT}${API_PREFIX}`;
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
