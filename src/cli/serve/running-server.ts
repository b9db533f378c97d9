import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { json } from 'node:stream/consumers';
import { API_PREFIX } from '../../contract/operations.ts';
import { errnoOf } from '../../system/file-system.ts';
import { systemReason } from '../core/errors.ts';
import { checkUrl, DEFAULT_PORT, isLoopbackUrl, readProfile } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';

// How commands on this machine find out which store a running server has.

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

const TIMEOUT_MS = 1_000;

/**
 * `storeId` is the id of the server's store, if that server is `pets serve`. `unreachable` says why no response came.
 * `mayBeRunning` is false only if the connection was refused.
 */
export type ServerIdentity = { mayBeRunning: boolean; storeId?: string; unreachable?: string };

/** Asks the server at a base URL for the id of its store, without an API key (docs/service.md 12). */
export async function identifyServer(baseUrl: string): Promise<ServerIdentity> {
  try {
    // The route is next to /v1, also if a reverse proxy adds a prefix.
    const url = new URL('healthz', baseUrl);
    const { get } = url.protocol === 'https:' ? https : http;
    const [response] = await once(get(url, { signal: AbortSignal.timeout(TIMEOUT_MS) }), 'response');
    const { store } = (await json(response)) as { store?: unknown };
    return { mayBeRunning: true, ...(typeof store === 'string' && { storeId: store }) };
  } catch (error) {
    // A response that is not JSON is from another program.
    if (error instanceof SyntaxError) return { mayBeRunning: true };
    const isLate = (error as Error).name === 'AbortError';
    const unreachable = isLate ? 'no response within a second' : systemReason(error);
    return { mayBeRunning: errnoOf(error) !== 'ECONNREFUSED', unreachable };
  }
}
