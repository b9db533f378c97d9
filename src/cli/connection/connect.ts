import { isIP } from 'node:net';
import type { Client } from '../../client/client.ts';
import { ApiFailure, ContractError } from '../../client/errors.ts';
import { prepareStateDirectory, type StateDirectory } from '../../client/state-directory.ts';
import { API_PREFIX } from '../../contract/operations.ts';
import { createAddressMatcher, isAddressBlock } from '../../system/address-blocks.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import { type Context, version } from '../core/context.ts';
import { CliError, usageError } from '../core/errors.ts';
import { shellQuote } from '../core/shell-words.ts';
import { callError } from '../errors/call-error.ts';
import { createRedactor } from '../output/redact.ts';
import { stateDirectories } from '../profiles/paths.ts';
import {
  type Connection,
  isLoopbackUrl,
  type ProxySetting,
  portOf,
  profilesWithKey,
  readProfile,
  readSettings,
  resolveConnection,
} from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { reportAttempt } from './reports.ts';
import { wait } from './waits.ts';

/** The service and key to use for a command. Prints notices about ignored settings. @throws CliError */
export function connectionFor(context: CommandContext): Connection {
  const { globals, console, env } = context;
  const { connection, notices } = resolveConnection({
    flags: globals,
    env,
    // With --profile, do not read the settings, so that a damaged settings file does not matter.
    defaultProfile: globals.profile === undefined ? readSettings(context).defaultProfile : undefined,
    readProfile: (name) => readProfile(context, name),
  });
  for (const notice of notices) console.notice(notice);
  return connection;
}

/** If stderr is a terminal, prints which service will be changed, so that the user notices a wrong profile in time. */
export function reportTarget(
  { console, stderr }: CommandContext,
  connection: Connection,
  action: string,
): void {
  if (stderr.isTTY === true) console.notice(`${action} ${targetLabel(connection)}`);
}

export type ClientSettings = {
  /** Shows a countdown during a wait; undefined removes the countdown. The default is `console.status`. */
  showWait?: (line: string | undefined) => void;
  /** Sends each request only once, and never waits before a request. */
  once?: boolean;
};

/**
 * Calls `work` with a client, and closes the client afterwards. Ctrl-C and termination signals interrupt the client and
 * abort the AbortSignal of `work`.
 *
 * @throws CliError if the client throws; its cause is the error of the client. Other errors of `work` unchanged
 * @throws CliError if an environment variable contains an invalid proxy URL, or PETS_STATE_DIR is not writable
 */
export async function withClient<Result>(
  context: CommandContext,
  connection: Connection,
  work: (client: Client, signal: AbortSignal) => Promise<Result>,
  { showWait = context.console.status, once = false }: ClientSettings = {},
): Promise<Result> {
  const { globals, random, clock, uptime } = context;
  context.console.redact(connection.key);
  const redact = createRedactor(connection.key);
  const proxy = proxyFor(connection.baseUrl, context.env);
  const { createClient } = await import('../../client/client.ts');
  if (process.versions.node.startsWith('20.')) {
    // Node 20 optimizes all of undici's WebAssembly parser immediately, and a short process waits for that on exit. The
    // flag is set after the import, because changing flags makes the code cache of Node's own modules unusable.
    (await import('node:v8')).setFlagsFromString('--liftoff-only');
  }
  const interrupt = new AbortController();
  const unsubscribe = context.onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], () =>
    interrupt.abort(new InterruptedError()),
  );
  const client = createClient({
    baseUrl: connection.baseUrl,
    key: connection.key,
    userAgent: `pets/${version}`,
    redact,
    proxy: proxy?.address,
    stateDirectories: sharedDirectories(context),
    clock,
    uptime,
    random,
    wait: (event, signal) => wait(context, event, signal, showWait),
    signal: interrupt.signal,
    timeoutMilliseconds: globals.timeout * 1_000,
    deadline: globals.maxTime && context.startedAt + globals.maxTime * 1_000,
    maxWaitMilliseconds: globals.retry && !once ? globals.maxWait * 1_000 : undefined,
    onAttempt: globals.debug ? (attempted) => reportAttempt(context, attempted, redact) : undefined,
  });
  try {
    return await work(client, interrupt.signal);
  } catch (error) {
    const ignoredProxy = proxy ? undefined : ignoredProxyVariable(connection.baseUrl, context.env);
    const { platform, console } = context;
    const [now, timeZone] = [clock.now(), console.timeZone()];
    const foundBaseUrl = await findPrefix(context, connection, error);
    const listCommand = followUpCommand(context, 'list');
    const call = { connection, proxy, ignoredProxy, foundBaseUrl, now, timeZone, platform, listCommand };
    throw callError(error, call);
  } finally {
    unsubscribe();
    await client.close();
  }
}

/** The base URL with `/v1`, if nothing was found without it but the service answers there; otherwise undefined. */
async function findPrefix(
  context: CommandContext,
  connection: Connection,
  error: unknown,
): Promise<string | undefined> {
  const isMissing = error instanceof ContractError && error.status === 404;
  if (!isMissing || connection.key === '' || connection.baseUrl.endsWith(API_PREFIX)) return undefined;
  const baseUrl = connection.baseUrl + API_PREFIX;
  const answer = await probe(context, { ...connection, baseUrl });
  return answer === undefined || isKeyRequired(answer) ? baseUrl : undefined;
}

/** The error of one request without a key; undefined if it succeeds. Shows whether a service is at a base URL. */
export const probe = (context: CommandContext, connection: Connection): Promise<unknown> =>
  withClient(context, { ...connection, key: '' }, listOne, { once: true }).then(
    () => undefined,
    (error: unknown) => error,
  );

/** Whether the service has asked for a key. */
export const isKeyRequired = (error: unknown): boolean =>
  error instanceof CliError && error.cause instanceof ApiFailure && error.cause.status === 401;

export const listOne = (client: Client) => client.call('listPets', { query: { limit: 1 } });

/** A command line, quoted for the shell, that uses the same profile and base URL as the running command. */
export function followUpCommand(
  { globals: { profile, baseUrl }, platform }: CommandContext,
  command: string,
): string {
  const words = ['pets', command];
  if (profile !== undefined) words.push('--profile', profile);
  if (baseUrl !== undefined) words.push('--base-url', baseUrl);
  return shellQuote(words, platform);
}

/** The host and the source of the key as shown in messages, for example `api.example.com (profile prod)`. */
export const targetLabel = ({ baseUrl, keySource }: Pick<Connection, 'baseUrl' | 'keySource'>): string =>
  `${new URL(baseUrl).host} (${keySource === 'PETS_API_KEY' ? 'key from PETS_API_KEY' : keySource})`;

/**
 * The host and the source of the key for the end of a list, such as ` at api.example.com (profile staging)`. Empty for the
 * most common sources of the key, unless several profiles have a key and could be confused.
 */
export function footerLabel(context: CommandContext, connection: Connection): string {
  const isUsual = ['profile prod', 'PETS_API_KEY'].includes(connection.keySource);
  const keys = profilesWithKey({ readProfile: (name) => readProfile(context, name) });
  return isUsual && keys.length <= 1 ? '' : ` at ${targetLabel(connection)}`;
}

/**
 * The first state directory that is writable, created if it is missing; undefined if none is writable.
 *
 * @throws CliError if PETS_STATE_DIR is not writable
 */
export function createStateDirectory(context: CommandContext): StateDirectory | undefined {
  const writable = stateDirectories(context).find(prepareStateDirectory);
  const given = context.env['PETS_STATE_DIR'];
  if (writable === undefined && given)
    throw usageError(
      `PETS_STATE_DIR is not a writable directory: ${given}`,
      'set it to a directory that you can write to, or unset it',
    );
  return writable;
}

/** Prints a notice if no state directory is writable. @throws CliError if PETS_STATE_DIR is not writable */
function sharedDirectories(context: CommandContext): readonly StateDirectory[] {
  const directories = stateDirectories(context);
  if (createStateDirectory(context) === undefined)
    context.console.notice(
      `pets commands cannot share how long to wait after a rate limit, because none of these directories is writable: ${directories.map(({ path }) => path).join(', ')}. Set PETS_STATE_DIR to a writable directory`,
    );
  return directories;
}

/**
 * The proxy that environment variables set for a base URL, if any. Undefined for services on this machine or in NO_PROXY.
 * As in curl, the lower-case variable takes precedence, and an empty value means no proxy.
 *
 * @throws CliError for an invalid proxy URL
 */
export function proxyFor(baseUrl: string, env: Context['env']): ProxySetting | undefined {
  const url = new URL(baseUrl);
  if (needsNoProxy(url, env)) return undefined;
  const name = url.protocol === 'https:' ? 'https_proxy' : 'http_proxy';
  const variable = env[name] === undefined ? name.toUpperCase() : name;
  const text = env[variable];
  if (!text) return undefined;
  // Like curl, also accept a host and port without a scheme.
  const address = text.includes('://') ? text : `http://${text}`;
  if (isProxyUrl(address)) return { address, variable };
  // Do not echo the value, because it may contain a password.
  throw usageError(
    `${variable} is not the URL of an HTTP proxy`,
    'set it to a URL such as http://proxy.example.com:3128; in a user or password, write @ as %40, : as %3A, / as %2F and % as %25',
  );
}

/** The name of a variable with a proxy that other programs would use, but pets does not; undefined if there is none. */
const ignoredProxyVariable = (baseUrl: string, env: Context['env']): string | undefined =>
  needsNoProxy(new URL(baseUrl), env) ? undefined : ['all_proxy', 'ALL_PROXY'].find((name) => env[name]);

const needsNoProxy = (url: URL, env: Context['env']): boolean =>
  isLoopbackUrl(url) || isExcluded(url, env['no_proxy'] ?? env['NO_PROXY'] ?? '');

function isProxyUrl(address: string): boolean {
  try {
    const { protocol, username, password } = new URL(address);
    decodeURIComponent(username + password);
    return /^https?:$/.test(protocol);
  } catch {
    return false;
  }
}

/**
 * Whether an entry of NO_PROXY matches the URL. An entry is a CIDR block, an address, a domain or `*`. A domain matches
 * its subdomains too. All entries except CIDR blocks may have a port.
 */
function isExcluded(url: URL, noProxy: string): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return noProxy
    .toLowerCase()
    .split(/[,\s]+/)
    .some((entry) => {
      if (entry.includes('/')) return isAddressBlock(entry) && createAddressMatcher([entry])(host);
      const [, name = entry, entryPort] = (!isIP(entry) && /^(.+):(\d+)$/.exec(entry)) || [];
      if (entryPort !== undefined && entryPort !== portOf(url)) return false;
      const domain = name.replace(/^\*?\.|^\[|\]$/g, '');
      return domain === '*' || host === domain || (domain !== '' && host.endsWith(`.${domain}`));
    });
}
