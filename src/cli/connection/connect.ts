import type { Client } from '../../client/client.ts';
import { ApiFailure, ContractError } from '../../client/errors.ts';
import { prepareStateDirectory } from '../../client/service-state.ts';
import { API_PREFIX } from '../../contract/api.ts';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import { InterruptedError } from '../../system/clock.ts';
import { version } from '../core/context.ts';
import { CliError, usageError } from '../core/errors.ts';
import { shellQuote } from '../output/text.ts';
import { type HomeContext, stateDirectories } from '../profiles/paths.ts';
import {
  type Connection,
  checkProtocol,
  checkUrl,
  chooseProfile,
  type KeySource,
  type ProfileName,
  readProfile,
} from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { callError } from './call-error.ts';
import { reportAttempt, wait } from './reports.ts';

/**
 * Decides which key to send to which service. A key is only sent to the origin that it was set or saved for, whatever
 * the combination of options, variables and files. The origin of PETS_API_KEY is that of PETS_BASE_URL, or else of the
 * profile, or else of --base-url. With --profile, PETS_API_KEY and PETS_BASE_URL are ignored.
 *
 * @throws CliError with exit code 4 if there is no valid key, 2 if the key must not be sent to the base URL, or if a
 *   setting is missing or invalid, and 1 if a file is damaged or cannot be read
 */
export function connectionFor(context: HomeContext & Pick<CommandContext, 'globals'>): Connection {
  const { globals } = context;
  const env = globals.profile === undefined ? context.env : {};
  // Secrets of CI systems often end with a line break.
  const envKey = env['PETS_API_KEY']?.replace(/[\r\n]+$/, '');
  const flagUrl = globals.baseUrl === undefined ? undefined : checkUrl(globals.baseUrl, '--base-url');
  const envUrl = env['PETS_BASE_URL'] && checkUrl(env['PETS_BASE_URL'], 'PETS_BASE_URL');
  // If both variables are set, no file is read, because this user may not be able to read the files.
  const needsProfile = !(envKey && envUrl);
  const profile = needsProfile ? chooseProfile(context) : 'prod';
  const stored = needsProfile ? readProfile(context, profile) : undefined;
  const [key, home, keySource]: [string | undefined, string | undefined, KeySource] = envKey
    ? [envKey, envUrl || stored?.baseUrl, 'PETS_API_KEY']
    : [stored?.key, stored?.baseUrl, `profile ${profile}`];
  const baseUrl = flagUrl || envUrl || stored?.baseUrl;
  if (key === undefined) throw noKeyError(context, profile, envUrl || undefined);
  if (!API_KEY_PATTERN.test(key))
    throw new CliError(`the key in ${keySource} contains invalid characters`, {
      code: 'bad_key',
      hint: 'set the variable to the key alone: visible ASCII characters, without "Bearer" and spaces',
    });
  if (baseUrl === undefined)
    throw usageError('no base URL for the key in PETS_API_KEY', 'set PETS_BASE_URL as well');
  const [own, asked] = [new URL(home ?? baseUrl).origin, new URL(baseUrl).origin];
  if (own !== asked) {
    const other = profile === 'staging' ? 'local' : 'staging';
    throw usageError(
      `pets sends the key in ${keySource} only to ${own}, not to ${asked}`,
      `log in there as profile ${other}: pets login --profile ${other} --base-url ${baseUrl}; or set PETS_BASE_URL and PETS_API_KEY together, and leave out --base-url and --profile`,
    );
  }
  checkProtocol(baseUrl, context.env);
  return { profile, baseUrl, key, keySource };
}

function noKeyError(context: FollowUp, profile: ProfileName, environmentUrl: string | undefined): CliError {
  const login = followUpCommand(context, 'login');
  const isNamed = context.globals.profile !== undefined;
  const script = isNamed ? '' : '; in a script, set PETS_BASE_URL and PETS_API_KEY';
  let hint = `log in: ${login}. Or start a local service: pets serve --seed; then use it: pets use local${script}`;
  if (profile === 'local')
    hint = 'start or restart the local service; it saves a key, or prints how to create one: pets serve';
  if (environmentUrl !== undefined) hint = `set PETS_API_KEY to the key for ${environmentUrl}`;
  const missing = environmentUrl === undefined ? `saved for profile ${profile}` : `for ${environmentUrl}`;
  return new CliError(`no API key ${missing}`, { code: 'no_key', hint });
}

/** If stderr is a terminal, prints which service will be changed, so that the user notices a wrong profile in time. */
export function reportTarget(
  { console, stderr }: CommandContext,
  connection: Connection,
  action: string,
): void {
  if (stderr.isTTY === true) console.notice(`${action} ${targetLabel(connection)}`);
}

type ClientSettings = {
  /** Shows a line of a countdown during a wait; undefined removes it. The default is `console.showStatus`. */
  showWait?: (line: string | undefined) => void;
  /** Sends each request only once, and never waits before a request. */
  once?: boolean;
};

/**
 * Calls `work` with a client, and closes the client afterwards. Ctrl-C and termination signals interrupt the client and
 * abort the AbortSignal of `work`.
 *
 * @throws CliError with a ClientError of `work` as its cause; other errors of `work` unchanged, such as InterruptedError
 * @throws CliError if an environment variable contains an invalid proxy URL
 */
export async function withClient<Result>(
  context: CommandContext,
  connection: Connection,
  work: (client: Client, signal: AbortSignal) => Promise<Result>,
  { showWait = context.console.showStatus, once = false }: ClientSettings = {},
): Promise<Result> {
  const { globals, random, clock, uptime, env, platform, console } = context;
  const canWait = globals.retry && !once;
  console.redact(connection.key);
  // Most users have no proxy, so this module is loaded only if one is set.
  const hasProxies = Object.keys(env).some((name) => /^(https?|all)_proxy$/i.test(name));
  const proxy = hasProxies ? (await import('./proxy.ts')).proxyFor(connection.baseUrl, env) : undefined;
  const directories = stateDirectories(context);
  if (!directories.some(prepareStateDirectory))
    console.notice(
      `pets commands cannot share how long to wait after a rate limit, because none of these directories can be used: ${directories.map(({ path }) => path).join(', ')}. Set PETS_STATE_DIR to a writable directory of your own`,
    );
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
    proxy: proxy?.address,
    stateDirectories: directories,
    clock,
    uptime,
    random,
    wait: (event, signal) => wait(context, event, signal, showWait),
    signal: interrupt.signal,
    timeoutMilliseconds: globals.timeout * 1_000,
    deadline: globals.maxTime && context.startedAt + globals.maxTime * 1_000,
    maxWaitMilliseconds: canWait ? globals.maxWait * 1_000 : undefined,
    onAttempt: globals.debug ? (attempted) => reportAttempt(context, attempted) : undefined,
  });
  try {
    return await work(client, interrupt.signal);
  } catch (error) {
    const foundBaseUrl = await findServiceAtPrefix(context, connection, error);
    const [now, timeZone] = [clock.now(), console.messageTimeZone()];
    const listCommand = followUpCommand(context, 'list');
    const call = { connection, foundBaseUrl, now, timeZone, platform, listCommand, canWait };
    throw callError(error, { ...call, proxyVariable: proxy?.variable });
  } finally {
    unsubscribe();
    await client.close();
  }
}

/** After a 404 at the base URL: that URL with `/v1`, if a service responds there. Otherwise undefined. */
async function findServiceAtPrefix(
  context: CommandContext,
  connection: Connection,
  error: unknown,
): Promise<string | undefined> {
  const isMissing = error instanceof ContractError && error.status === 404;
  if (!isMissing || connection.key === '' || connection.baseUrl.endsWith(API_PREFIX)) return undefined;
  const baseUrl = connection.baseUrl + API_PREFIX;
  const probeError = await probe(context, { ...connection, baseUrl });
  return probeError === undefined || isKeyRequired(probeError) ? baseUrl : undefined;
}

/** The error of one request without a key; undefined if it succeeds. Shows whether a service is at a base URL. */
export const probe = (context: CommandContext, connection: Connection): Promise<unknown> =>
  withClient(context, { ...connection, key: '' }, listOne, { once: true }).then(
    () => undefined,
    (error: unknown) => error,
  );

export const isKeyRequired = (error: unknown): boolean =>
  error instanceof CliError && error.cause instanceof ApiFailure && error.cause.status === 401;

export const listOne = (client: Client) => client.call('listPets', { query: { limit: 1 } });

type FollowUp = Pick<CommandContext, 'globals' | 'platform'>;

/** A command line, quoted for the shell, that uses the same profile and base URL as the running command. */
export function followUpCommand(
  { globals: { profile, baseUrl }, platform }: FollowUp,
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

/** The end of the count below a list: ` at api.example.com (profile staging)`, or empty for the usual sources of the key. */
export const footerLabel = (connection: Connection): string =>
  ['profile prod', 'PETS_API_KEY'].includes(connection.keySource) ? '' : ` at ${targetLabel(connection)}`;
