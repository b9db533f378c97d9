import { type PlanName, plans } from '../../contract/plans.ts';
import type { FaultOptions } from '../../server/faults/faults.ts';
import type { OnAccess, Service } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { withEnvironment } from '../core/shell-words.ts';
import { describeError } from '../errors/describe-error.ts';
import { isClosedPipe } from '../output/console.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { formatCount } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';
import type { DevKey } from './api-key.ts';
import { DEFAULT_PLAN, type ServeOptions } from './options.ts';
import { withData } from './store-location.ts';

export type ServerEvents = ReturnType<typeof createServerEvents>;

type Started = {
  location: StoreLocation;
  devKey: DevKey | undefined;
  /** The URL of another store's running service, to which profile `local` still points. */
  otherService: string | undefined;
};

/** Prints what happens in a running server, as text or (with `--json`) as one event per line. */
export function createServerEvents(options: ServeOptions, context: CommandContext) {
  const { quiet, command } = options;
  const { console } = context;
  const isLogging = options.log ?? (context.stderr.isTTY === true && command.length === 0 && !quiet);
  /** Prints a note that `--quiet` hides. Problems, such as a full disk, are always shown. */
  const notice = (text: string) => {
    if (!quiet) console.notice(text);
  };
  let hasStarted = false;

  /** Prints to stdout. If there is a command, prints to stderr, because the output of the command goes to stdout. */
  const print = async (event: Record<string, unknown>, text: string) => {
    hasStarted = true;
    try {
      if (command.length > 0) {
        if (!quiet) console.event(event, text);
      } else if (console.json) await console.writeJson(event);
      else if (!quiet) await console.write(`${text}\n`);
    } catch (error) {
      // The reader may close the pipe after the first line. The server keeps running.
      if (!isClosedPipe(error)) throw error;
    }
  };

  return {
    async listening(service: Service, started: Started) {
      const animals = await service.store.size();
      await print(
        listeningEvent(service, started, animals, context),
        listeningText(service, started, animals, options, context),
      );
      warnAboutOptions(service, options, notice);
      warnAboutKeyAndProfile(started, options, context, notice);
    },
    async runningCommand(service: Service, key: string) {
      const { url, faults } = service;
      const described = faults && describeFaults(faults);
      const lines = [
        `pets serve: listening on ${url}, running: ${sanitizeForTerminal(command.join(' '))}`,
        ...(described ? [described] : []),
        ...(service.pageUrl ? [pageLine(service.pageUrl())] : []),
      ];
      await print(
        {
          event: 'listening',
          url,
          key,
          ...(described && { faults }),
          ...credentialsOf(service, context),
        },
        lines.join('\n'),
      );
      warnAboutOptions(service, options, notice);
    },
    /** Prints the address of the page again, after the one before was used. Ignores output errors. */
    pageUrl(url: string) {
      print({ event: 'page', page: url }, pageLine(url)).catch(() => {});
    },
    /** Prints that the server has stopped, if it was started. Ignores output errors, because the process exits next. */
    async stopped() {
      if (hasStarted) await print({ event: 'stopped' }, 'pets serve: stopped').catch(() => {});
    },
    warning: (message: string) => console.notice(message),
    internalError(error: unknown) {
      const { message } = describeError(error, context);
      console.event({ error: { code: 'internal_error', message } }, `error: ${sanitizeForTerminal(message)}`);
    },
    /** Called for each response. Undefined if nothing is printed about responses. */
    request: createRequestPrinter(isLogging, options, context),
  };
}

/** The API key to print; undefined if there is none, or if the user has chosen it. */
const printedKey = (devKey: DevKey | undefined): string | undefined =>
  devKey?.source === undefined ? devKey?.key : undefined;

const descriptionUrl = (url: string): string => new URL('/openapi.json', url).href;

const pageLine = (url: string): string => `pets serve: page ${url}`;

/** What opens the developer tools. A token that the user has chosen is not printed, because logs are kept. */
const credentialsOf = ({ token, pageUrl }: Service, { env }: Pick<CommandContext, 'env'>) => ({
  ...(token !== env['PETS_SERVE_TOKEN'] && { token }),
  ...(pageUrl && { page: pageUrl() }),
});

/** The event that `--json` prints when the server listens. */
function listeningEvent(
  service: Service,
  { location, devKey }: Started,
  animals: number,
  context: CommandContext,
): Record<string, unknown> {
  const { url, port, seeded, faults, store } = service;
  const key = printedKey(devKey);
  return {
    event: 'listening',
    url,
    openapi: descriptionUrl(url),
    port,
    pid: context.pid,
    store: store.id,
    directory: location.place,
    animals,
    seeded,
    ...(faults && describeFaults(faults) && { faults }),
    ...(key && { key }),
    ...(devKey && { plan: devKey.plan }),
    ...credentialsOf(service, context),
  };
}

/** The lines that are printed when the server listens. */
function listeningText(
  { url, faults, pageUrl }: Service,
  { location, devKey, otherService }: Started,
  animals: number,
  options: ServeOptions,
  context: CommandContext,
): string {
  const { bold, cyan, dim } = context.console.colours;
  const described = faults && describeFaults(faults);
  const key = printedKey(devKey);
  const path = sanitizeForTerminal(location.place);
  const variables = { PETS_BASE_URL: url, PETS_API_KEY: key ?? '<key>' };
  const isInProfile = options.profile && devKey?.key !== undefined && otherService === undefined;
  const next = isInProfile
    ? 'pets --profile local list'
    : withEnvironment(variables, 'pets list', context.platform);
  return [
    `${bold('pets serve')} ${cyan(url)}`,
    `  ${formatCount(animals, 'animal')} in ${path}${options.ephemeral ? ' (deleted on exit)' : ''}`,
    devKey?.key === undefined
      ? `  no API key of this store is saved here; create one: ${addKeyCommand(location, devKey?.plan ?? options.plan ?? DEFAULT_PLAN, options, context)}`
      : `  API key ${key ?? `from ${sanitizeForTerminal(devKey.source ?? '')}`} (plan ${devKey.plan})`,
    ...(described ? [`  ${described}`] : []),
    `  API described in ${cyan(descriptionUrl(url))}`,
    ...(pageUrl ? [`  page ${cyan(pageUrl())}`] : []),
    `  ${dim('try:')} ${next}`,
  ].join('\n');
}

/** Describes the faults, with the seed that repeats the random ones; undefined if there are none. */
function describeFaults({ latency, failRate, seed, rules = [] }: FaultOptions): string | undefined {
  const parts: string[] = [];
  if (latency) {
    const { min, max } = latency;
    parts.push(`responses delayed by ${min === max ? min : `${min} to ${max}`} ms`);
  }
  if (failRate !== undefined) parts.push(`${Number((failRate * 100).toPrecision(3))} % of requests fail`);
  if (rules.length > 0) parts.push(formatCount(rules.length, 'rule'));
  return parts.length === 0 ? undefined : `faults: ${parts.join(', ')} (--fault-seed ${seed})`;
}

/** The command that adds a key to the store. */
const addKeyCommand = (
  location: StoreLocation,
  plan: PlanName,
  { data }: ServeOptions,
  { platform }: CommandContext,
): string =>
  sanitizeForTerminal(withData(`pets keys add <name> --plan ${plan} --save`, data, location, platform));

function warnAboutOptions(
  { seeded, isLoopback, pageUrl }: Service,
  options: ServeOptions,
  notice: (text: string) => void,
): void {
  if (options.seed !== undefined && !seeded) notice('store is not empty; --seed ignored');
  if (pageUrl === undefined && options.page === undefined) {
    notice(
      'other machines may reach this server, so it has no page and no other developer tools; to have them: --page',
    );
  }
  if (!isLoopback && !options.publicUrl?.startsWith('https:')) {
    notice(
      'other machines can reach this server, and API keys are sent to it unencrypted; use a reverse proxy with TLS',
    );
  }
}

function warnAboutKeyAndProfile(
  { location, devKey, otherService }: Started,
  options: ServeOptions,
  context: CommandContext,
  notice: (text: string) => void,
): void {
  const { plan } = options;
  // A shared store gets no key. The first lines show a command with this plan.
  const hasNoKey = location.isShared && devKey === undefined;
  if (plan !== undefined && devKey?.plan !== plan && !hasNoKey) {
    const has = devKey ? `its key has plan ${devKey.plan}` : 'it has keys';
    notice(
      `--plan ${plan} ignored, because the store is not new and ${has}; to add a key: ${addKeyCommand(location, plan, options, context)}`,
    );
  }
  if (otherService)
    notice(`profile local was not changed, because it points to a running service at ${otherService}`);
}

/** Prints the log, and one hint about the rate limit, because tests often run into the limit without noticing it. */
function createRequestPrinter(
  isLogging: boolean,
  options: ServeOptions,
  context: CommandContext,
): OnAccess | undefined {
  const log = isLogging ? createAccessLog(context) : undefined;
  const { plan = DEFAULT_PLAN, command, quiet = false } = options;
  let isLimitReported = plan === 'enterprise' || command.length === 0 || quiet;
  if (log === undefined && isLimitReported) return undefined;
  return (entry, redact) => {
    log?.(entry, redact);
    if (isLimitReported || entry.code !== 'rate_limited' || entry.keyName === undefined) return;
    isLimitReported = true;
    const { perMinute, perDay } = plans[plan];
    context.console.notice(
      `the command has used up a rate limit of plan ${plan} (${perMinute} requests per minute, ${perDay} per day); to test without limits: pets serve --plan enterprise -- …`,
    );
  };
}

/** If nothing reads the log, requests are not logged while more than this many bytes are buffered. */
const MAX_LOG_BYTES = 2 ** 20;

/** Returns a function that prints a line for each request to stderr, or an object with `--json` (docs/serve.md). */
function createAccessLog({ console, stderr }: CommandContext): OnAccess {
  const { dim } = console.errorColours;
  let dropped = 0;

  return ({ time, id, client, keyName, method, url, status, milliseconds }, redact) => {
    if (stderr.writableLength > MAX_LOG_BYTES) {
      dropped++;
      return;
    }
    if (dropped > 0)
      console.notice(`${formatCount(dropped, 'request')} not logged, because nothing read the output`);
    dropped = 0;
    const request = {
      time: new Date(time).toISOString(),
      id: redact(id),
      ...(keyName !== undefined && { keyName }),
      client,
      method,
      url: redact(url),
      status,
      milliseconds: Math.round(milliseconds * 10) / 10,
    };
    const parts = [
      request.time,
      request.id,
      keyName ?? '-',
      client,
      method,
      sanitizeForTerminal(request.url),
      status,
      `${request.milliseconds} ms`,
    ];
    console.event({ request }, dim(parts.join(' ')));
  };
}
