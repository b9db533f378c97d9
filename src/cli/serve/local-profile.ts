import type { Service } from '../../server/service.ts';
import type { Context } from '../context.ts';
import { openProfileFiles } from '../profiles/files.ts';

const ANSWER_MILLISECONDS = 1_000;

/**
 * Points profile `local` at a service, unless another store's service answers where it points now.
 *
 * @returns the URL of that other service, where the profile was left alone
 */
export async function saveLocalProfile(
  context: Context,
  service: Service,
  key: string,
): Promise<string | undefined> {
  const files = openProfileFiles(context);
  const stored = files.read('local');
  if (stored && stored.baseUrl !== service.url) {
    const owner = await storeBehind(stored.baseUrl);
    if (owner !== undefined && owner !== service.store.id) return stored.baseUrl;
  }
  await files.write('local', { baseUrl: service.url, key });
  return undefined;
}

/** The id of the store that a local service serves; undefined where nothing answers that is one. */
async function storeBehind(baseUrl: string): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(ANSWER_MILLISECONDS);
    const response = await fetch(new URL('/healthz', baseUrl), { redirect: 'error', signal });
    const { store } = (await response.json()) as { store?: unknown };
    return typeof store === 'string' ? store : undefined;
  } catch {
    return undefined;
  }
}
