import { hash } from 'node:crypto';
import { once } from 'node:events';
import { realpath } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { dirname, join } from 'node:path';
import { json } from 'node:stream/consumers';
import * as z from 'zod/mini';
import { API_PREFIX } from '../../contract/operations.ts';
import type { Service } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { IsoTime, parseStoredJson } from '../../store/stored-json.ts';
import {
  errnoOf,
  makePrivateDirectory,
  readTextFile,
  realFileSystem,
  replaceFile,
} from '../../system/file-system.ts';
import type { Context } from '../core/context.ts';
import { systemReason } from '../core/errors.ts';
import { configDirectory } from '../profiles/paths.ts';
import { checkProtocol, checkUrl, DEFAULT_PORT, isLoopbackUrl, readProfile } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';

// How commands on this machine find the running server of a store, and what they ask it.

export const MAX_STORE_FILE_BYTES = 2 ** 16;

/** The path of a private file about a store of `pets serve`: its API key, or the address of its running server. */
export const storeFilePath = (context: Context, name: string, kind: 'key' | 'server'): string =>
  join(configDirectory(context), 'stores', `${name}.${kind}`);

/**
 * The path of the file with the address of a store's running server. A copy of a directory has the same store id and
 * may have its own server, so the name depends on the directory too. A database may have several URLs, so only the
 * id counts.
 */
async function serverFile(
  context: Context,
  storeId: string,
  { place, isShared }: StoreLocation,
): Promise<string> {
  if (isShared) return storeFilePath(context, storeId, 'server');
  const path = await realpath(place).catch(() => place);
  return storeFilePath(context, `${storeId}-${hash('sha256', path).slice(0, 16)}`, 'server');
}

export async function writeStoreFile(context: Context, path: string, text: string): Promise<void> {
  await makePrivateDirectory(realFileSystem, configDirectory(context));
  await makePrivateDirectory(realFileSystem, dirname(path));
  await replaceFile(realFileSystem, path, [Buffer.from(text)]);
}

const readServerFile = (path: string): Promise<string | undefined> =>
  readTextFile(realFileSystem, path, MAX_STORE_FILE_BYTES).catch(() => undefined);

/** A running server with its developer token, if it is known. */
type Server = z.infer<typeof Server>;
const Server = z.object({ url: z.string(), token: z.optional(z.string()) });

/**
 * Writes the address of a running server to a file, so that `pets keys list` can ask the server. The file has the developer
 * token only if it was generated: one that the user has chosen is written nowhere. Without the file, that command shows less,
 * so errors are ignored.
 *
 * @returns a function that removes the file, unless another server of the store has replaced it
 */
export async function writeServerFile(
  context: Context,
  location: StoreLocation,
  { store, url, token }: Pick<Service, 'store' | 'url' | 'token'>,
): Promise<() => Promise<void>> {
  const path = await serverFile(context, store.id, location);
  const isChosen = token === context.env['PETS_SERVE_TOKEN'];
  const text = `${JSON.stringify({ url, ...(!isChosen && { token }) } satisfies Server)}\n`;
  await writeStoreFile(context, path, text).catch(() => {});
  return async () => {
    if ((await readServerFile(path)) === text) await realFileSystem.unlink(path).catch(() => {});
  };
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

const TIMEOUT_MS = 1_000;

/**
 * `storeId` is the id of the server's store, if that server is `pets serve`. `unreachable` says why no response came.
 * `mayBeRunning` is false only if the connection was refused.
 */
export type ServerIdentity = { mayBeRunning: boolean; storeId?: string; unreachable?: string };

/** Asks the server at a base URL for the id of its store, without an API key (docs/service.md 12). */
export async function identifyServer(baseUrl: string): Promise<ServerIdentity> {
  try {
    const { store } = (await getJson(baseUrl, 'healthz')) as { store?: unknown };
    return { mayBeRunning: true, ...(typeof store === 'string' && { storeId: store }) };
  } catch (error) {
    // A response that is not JSON is from another program.
    if (error instanceof SyntaxError) return { mayBeRunning: true };
    const isLate = (error as Error).name === 'AbortError';
    const unreachable = isLate ? 'no response within a second' : systemReason(error);
    return { mayBeRunning: errnoOf(error) !== 'ECONNREFUSED', unreachable };
  }
}

/** Requests JSON from a route next to the `/v1` of a base URL, also if a reverse proxy adds a prefix. */
async function getJson(baseUrl: string, route: string, headers: http.OutgoingHttpHeaders = {}) {
  const url = new URL(route, baseUrl);
  const { get } = url.protocol === 'https:' ? https : http;
  const request = get(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
  const [response] = await once(request, 'response');
  return json(response);
}

const Window = z.object({ left: z.number() });

/** What a server responds about a key: the requests left in both windows, and the end of its ban if it is banned. */
export type KeyUsage = z.infer<typeof KeyUsage>;
const KeyUsage = z.object({
  name: z.string(),
  minute: Window,
  day: Window,
  bannedUntil: z.optional(IsoTime),
});
const Keys = z.object({ keys: z.array(KeyUsage) });
const ErrorCode = z.object({ code: z.string() });

/**
 * Asks the running server of a store about its keys (docs/testing.md). The developer token is sent only to a server that
 * says that it has this store.
 *
 * @returns `problem` says why the usage of the keys is not known
 * @throws CliError if the token in PETS_SERVE_TOKEN would be sent unencrypted to another machine
 */
export async function readKeyUsage(
  context: CommandContext,
  storeId: string,
  location: StoreLocation,
): Promise<{ usage?: readonly KeyUsage[]; problem?: string }> {
  const path = await serverFile(context, storeId, location);
  const server = await findServer(context, path);
  if (server === undefined) {
    return {
      problem:
        'no running server with developer tools was found for this store; if one runs on another machine, set PETS_SERVE_TOKEN to its developer token, and add --base-url <url>',
    };
  }
  const { url, token } = server;
  const { storeId: found } = await identifyServer(url);
  if (found === undefined) return { problem: `no pets serve responds at ${url}` };
  if (found !== storeId) return { problem: `the server at ${url} has another store` };
  if (!token)
    return { problem: `PETS_SERVE_TOKEN is not set; set it to the developer token of the server at ${url}` };
  const response = await getJson(url, 'keys', { Authorization: `Bearer ${token}` }).catch(() => undefined);
  const { data } = Keys.safeParse(response);
  if (data) return { usage: data.keys };
  const isRefused = ErrorCode.safeParse(response).data?.code === 'unauthorized';
  const why = isRefused
    ? 'does not accept the developer token; set PETS_SERVE_TOKEN to its token'
    : 'did not send its list of keys; it needs its developer tools (--page), and the same version of pets';
  return { problem: `the server at ${url} ${why}` };
}

/**
 * The server at `--base-url`, or else the one whose address is in the file `path`, or else that of `readLocalBaseUrl`.
 * Without PETS_SERVE_TOKEN, only the file can have a token, so no other server can be asked.
 */
async function findServer(context: CommandContext, path: string): Promise<Server | undefined> {
  const { env, globals } = context;
  const token = env['PETS_SERVE_TOKEN'];
  // `pets serve` removes the file when it stops, but not if it crashes, so the caller must check which server responds.
  const text = globals.baseUrl === undefined ? await readServerFile(path) : undefined;
  const written = text === undefined ? undefined : parseStoredJson(Server, text);
  if (written && 'data' in written) return { token, ...written.data };
  if (!token) return undefined;
  const url = readLocalBaseUrl(context);
  checkProtocol(url, env);
  return { url, token };
}
