import * as z from 'zod/mini';
import { Instant, readStored } from '../../store/stored-json.ts';
import { realFileSystem } from '../../system/file-system.ts';
import { readTextFile } from '../../system/files.ts';
import { checkProtocol } from '../profiles/resolve.ts';
import type { CommandContext } from '../program/command.ts';
import { getJson, identifyServer, MAX_KEY_FILE_BYTES, readLocalBaseUrl, storeFile } from './api-key.ts';

const Window = z.object({ left: z.number() });

/** What a server responds about a key: the requests left in both windows, and the end of its ban if it is banned. */
export type KeyUsage = z.infer<typeof KeyUsage>;
const KeyUsage = z.object({
  name: z.string(),
  minute: Window,
  day: Window,
  bannedUntil: z.optional(Instant),
});
const Keys = z.object({ keys: z.array(KeyUsage), total: z.number() });
const ErrorCode = z.object({ code: z.string() });

/** A running server with its developer token, if it is known. */
type Server = z.infer<typeof Server> & { isFromVariable?: boolean };
const Server = z.object({ url: z.string(), token: z.optional(z.string()) });

/** Why no server shows the requests left, or not those of all keys. `isStopped` is true if starting the server helps. */
type Problem = { message: string; isStopped?: boolean };

/** What the server responds about the keys, and why it does not respond about all. */
type Asked = { usage: readonly KeyUsage[]; problem?: Problem } | { usage?: undefined; problem: Problem };

const NO_SERVER: Problem = {
  message:
    'no running server of this store shows them; to ask one on another machine, set PETS_SERVE_TOKEN and use --base-url',
};

/**
 * Asks a running server of a store about its keys (docs/service.md 13).
 *
 * @returns `problem` if no server shows all keys: the one of a server that runs, if there is one
 * @throws CliError if the token in PETS_SERVE_TOKEN would be sent unencrypted to another machine
 */
export async function readKeyUsage(context: CommandContext, storeId: string): Promise<Asked> {
  let problem: Problem | undefined;
  for (const server of await knownServers(context, storeId)) {
    const asked = await askServer(server, storeId);
    if (asked.usage) return asked;
    if (problem === undefined || problem.isStopped) problem = asked.problem;
  }
  return { problem: problem ?? NO_SERVER };
}

/** Asks one server. The developer token is sent only to a server that says that it has this store. */
async function askServer({ url, token, isFromVariable }: Server, storeId: string): Promise<Asked> {
  const failed = (message: string, isStopped = false): Asked => ({ problem: { message, isStopped } });
  const { storeId: found } = await identifyServer(url);
  if (found === undefined) return failed(`no pets serve responds at ${url}`, true);
  if (found !== storeId) return failed(`the server at ${url} has another store`);
  if (!token) return failed(`PETS_SERVE_TOKEN is not set to the developer token of the server at ${url}`);
  const response = await getJson(url, 'keys', { Authorization: `Bearer ${token}` }).catch(() => undefined);
  const { data } = Keys.safeParse(response);
  if (data) {
    const [shown, total] = [data.keys.length, data.total];
    return shown < total
      ? { usage: data.keys, problem: { message: `the server shows only ${shown} of ${total} keys` } }
      : { usage: data.keys };
  }
  switch (ErrorCode.safeParse(response).data?.code) {
    case 'unauthorized':
      return failed(
        `the server at ${url} has another developer token${isFromVariable ? ' than PETS_SERVE_TOKEN' : ''}`,
      );
    case 'not_found':
      return failed(`the server at ${url} has no developer tools; it has them with --page`);
    default:
      return failed(`the server at ${url} does not respond with its keys`);
  }
}

/**
 * The server that has written its address on this machine, and the one that the user means with PETS_SERVE_TOKEN: first, if
 * `--base-url` chooses it.
 */
async function knownServers(context: CommandContext, storeId: string): Promise<Server[]> {
  const { env, globals } = context;
  const token = env['PETS_SERVE_TOKEN'];
  const servers: Server[] = [];
  // `pets serve` writes this file, and removes it when it stops. After a crash, nothing listens at the address, or another
  // program. A token that the user has chosen is not in it.
  const path = storeFile(context, storeId, 'server');
  const text = await readTextFile(realFileSystem, path, MAX_KEY_FILE_BYTES).catch(() => undefined);
  const written = text === undefined ? undefined : readStored(Server, text);
  if (written && 'data' in written)
    servers.push({ token, isFromVariable: written.data.token === undefined, ...written.data });
  if (token) {
    const url = readLocalBaseUrl(context);
    checkProtocol(url, env);
    servers.splice(globals.baseUrl === undefined ? servers.length : 0, 0, {
      url,
      token,
      isFromVariable: true,
    });
  }
  return servers;
}
