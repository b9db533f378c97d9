import { isIP } from 'node:net';
import type { Client } from '../../client/client.ts';
import type { Deprecation } from '../../client/response.ts';
import type { AttemptEvent, WaitEvent } from '../../client/retry.ts';
import type { StateOptions } from '../../client/service-state.ts';
import { prepareStateDirectory, type StateDirectory } from '../../client/state-directory.ts';
import type { OperationName } from '../../contract/operations.ts';
import { createAddressMatcher, isAddressBlock } from '../../system/address-blocks.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import { formatDuration } from '../../system/time-text.ts';
import type { Context } from '../core/context.ts';
import { usageError } from '../core/errors.ts';
import { shellQuote } from '../core/shell-words.ts';
import { version } from '../core/version-details.ts';
import { callError } from '../errors/call-error.ts';
import type { StatusVariants } from '../output/console.ts';
import { createRedactor } from '../output/redact.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { formatTime } from '../output/time.ts';
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
  showWait?: (line: StatusVariants | undefined) => void;
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
  const { globals, random } = context;
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
    onDifference: (difference) =>
      context.console.noticeOnce(`${new URL(connection.baseUrl).host} ${difference}`),
    userAgent: `pets/${version}`,
    redact,
    proxy: proxy?.address,
    ...stateOptions(context),
    random,
    ...createWaitReporter(context, showWait),
    signal: interrupt.signal,
    timeoutMilliseconds: globals.timeout * 1_000,
    failsFastIfRefused: context.stderr.isTTY === true && isLoopbackUrl(new URL(connection.baseUrl)),
    maxWaitMilliseconds: globals.retry && !once ? globals.maxWait * 1_000 : undefined,
    onDeprecated: (deprecated) => reportDeprecation(context, deprecated),
    reportsEveryDeprecation: context.globals.debug,
    onAttempt: globals.debug ? (attempted) => reportAttempt(context, attempted, redact) : undefined,
  });
  try {
    return await work(client, interrupt.signal);
  } catch (error) {
    const ignoredProxy = proxy ? undefined : ignoredProxyVariable(connection.baseUrl, context.env);
    const { clock, platform, console } = context;
    const [now, timeZone] = [clock.now(), console.timeZone()];
    throw callError(error, { connection, proxy, ignoredProxy, now, timeZone, platform });
  } finally {
    unsubscribe();
    await client.close();
  }
}

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

/**
 * Options for the state that all commands share. If no state directory is writable, prints one notice per command.
 *
 * @throws CliError if PETS_STATE_DIR is not writable
 */
function stateOptions(context: CommandContext): StateOptions {
  const { clock, uptime } = context;
  const directories = stateDirectories(context);
  const onUnwritable = () =>
    context.console.noticeOnce(
      `pets commands cannot share how long to wait after a rate limit, because none of these directories is writable: ${directories.map(({ path }) => path).join(', ')}. Set PETS_STATE_DIR to a writable directory`,
    );
  if (createStateDirectory(context) === undefined) onUnwritable();
  return { clock, uptime, stateDirectories: directories, onUnwritable };
}

/**
 * The proxy that environment variables set for a base URL, if any. Undefined for services on this machine or in NO_PROXY.
 * As in curl, the lower-case variable takes precedence, and an empty value means no proxy.
 *
 * @throws CliError for an invalid proxy URL
 */
export function proxyFor(baseUrl: string, env: Context['env']): ProxySetting | undefined {
  const url = new URL(baseUrl);
  if (isLoopbackUrl(url) || isExcluded(url, env['no_proxy'] ?? env['NO_PROXY'] ?? '')) return undefined;
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
function ignoredProxyVariable(baseUrl: string, env: Context['env']): string | undefined {
  const url = new URL(baseUrl);
  if (isLoopbackUrl(url) || isExcluded(url, env['no_proxy'] ?? env['NO_PROXY'] ?? '')) return undefined;
  return ['all_proxy', 'ALL_PROXY'].find((name) => env[name]);
}

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

// The messages with --debug, during a wait, and about a deprecated operation.

const SECOND = 1_000;
const DAY = 86_400_000;

/** Prints that the service will remove an operation, or that the announced date of its removal has passed. */
function reportDeprecation(
  { console, clock }: CommandContext,
  { operation, sunset, link }: { operation: OperationName } & Deprecation,
): void {
  const now = clock.now();
  const day = sunset?.toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: 'UTC' });
  const days = sunset && Math.ceil((sunset.getTime() - now) / DAY);
  let when = days === undefined ? 'on a day that it has not announced' : `on ${day} (days left: ${days})`;
  if (days !== undefined && days <= 0) when = `soon (announced for ${day}, which has passed)`;
  const more = link === undefined ? '' : ` (see ${link})`;
  console.notice(
    operation === 'getPet'
      ? `the service will stop supporting requests for one animal ${when}${more}; pets get will then read the whole list`
      : `this command needs a request that the service will stop supporting ${when}${more}; look for a newer version of pets`,
  );
}

/** A wait of the client, or of `pets import` for requests of an earlier run that the service may still receive. */
type Wait = Omit<WaitEvent, 'reason'> & { reason: WaitEvent['reason'] | 'earlier requests' };

/**
 * Returns `onWait` and `sleep` for the client, which report every wait. The report is a countdown on a terminal, and one
 * line elsewhere. With --debug, every wait also prints a line.
 *
 * @param show shows a line of the countdown; undefined removes the countdown
 */
export function createWaitReporter(
  { console, clock, sleep, globals }: CommandContext,
  show: (line: StatusVariants | undefined) => void,
): { onWait(wait: Wait): void; sleep: Context['sleep'] } {
  let current: Wait | undefined;
  const timeOf = (instant: number) => formatTime(instant, clock.now(), console.timeZone());

  return {
    onWait(wait) {
      current = wait;
      const { reason, milliseconds, until } = wait;
      if (!globals.debug && console.hasStatus) return;
      const event = {
        reason,
        seconds: Math.ceil(milliseconds / SECOND),
        until: new Date(until).toISOString(),
      };
      const [text] = waitLine(reason, milliseconds, timeOf(until));
      console.event({ wait: event }, console.errorColors.dim(text), 2);
    },
    async sleep(milliseconds, signal) {
      if (!console.hasStatus || current === undefined) return sleep(milliseconds, signal);
      const { reason, until } = current;
      try {
        // Count the steps instead of reading the clock, which may be set to another time during the wait.
        for (let left = milliseconds; left > 0; ) {
          show(waitLine(reason, left, timeOf(until)));
          // Sleep until the next full second, so that the countdown shows every second.
          const step = left % SECOND || SECOND;
          await sleep(step, signal);
          left -= step;
        }
      } finally {
        show(undefined);
      }
    },
  };
}

/** A line of the countdown, in three lengths. `time` is the end of the wait. */
function waitLine(reason: string, milliseconds: number, time: string): StatusVariants {
  const left = formatDuration(milliseconds);
  const cause = reason === 'connection' ? 'no response' : reason;
  return [`waiting ${left} (${cause}), until ${time}`, `waiting ${left}, until ${time}`, `waiting ${left}`];
}

/** The maximum number of characters of a body that --debug prints. */
const MAX_BODY_SHOWN = 4_096;

/** Logs one attempt with its headers and the start of its bodies, for --debug. */
function reportAttempt(
  { console }: CommandContext,
  { request, outcome, timings }: AttemptEvent,
  redact: (text: string) => string,
): void {
  const { method, url, headers: sent } = request;
  // The error code is left out, because the body contains it.
  const result =
    'response' in outcome ? { ...outcome.response, code: undefined } : { failure: String(outcome.error) };
  // Redact the API key before cutting the body, because a part of a key would not be recognized.
  const cut = (body = '') => redact(body).slice(0, MAX_BODY_SHOWN) || undefined;
  const bodies = { requestBody: cut(request.body), body: 'body' in result ? cut(result.body) : undefined };
  const lines = [
    `${method} ${url.href}`,
    ...messageLines('>', sent, bodies.requestBody),
    `${'status' in result ? result.status : `failed: ${result.failure}`} (${timingsText(timings)})`,
    ...('headers' in result ? messageLines('<', result.headers, bodies.body) : []),
  ];
  console.event(
    { debug: { method, url: url.href, times: timings, request: sent, ...result, ...bodies } },
    console.errorColors.dim(lines.map(sanitizeForTerminal).join('\n')),
  );
}

/** The lines of the headers and, after an empty line, those of a body if there is one. Each line starts with `mark`. */
function messageLines(mark: string, headers: object, body: string | undefined): string[] {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const lines = body === undefined ? fields : [...fields, '', ...body.trimEnd().split(/\r?\n/)];
  return lines.map((line) => `  ${mark} ${line}`);
}

function timingsText({ connected, firstByte, whole }: AttemptEvent['timings']): string {
  const steps = { connected, 'first byte': firstByte, complete: whole };
  return Object.entries(steps)
    .filter(([, time]) => time !== undefined)
    .map(([step, time]) => `${step} ${time} ms`)
    .join(', ');
}
