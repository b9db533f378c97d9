import { plans } from '../../contract/plans.ts';
import type { FaultOptions } from '../../server/faults.ts';
import type { OnAccess, Service } from '../../server/service.ts';
import type { RequestSummary } from '../../server/tools/log-entry.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { createTimeFormatter } from '../../system/time-text.ts';
import { toCliError } from '../core/errors.ts';
import { withEnvironment } from '../core/shell-words.ts';
import { isClosedPipe } from '../output/console.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { formatCount } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';
import type { Secrets, ServedKey } from './api-key.ts';
import { DEFAULT_PLAN, type ServeOptions } from './options.ts';
import { addDataOption } from './store-location.ts';

export type EventPrinter = ReturnType<typeof createEventPrinter>;

/** The API key of the server, if it has one, and the URL on another machine to which profile `local` still points. */
export type ProvidedKey = Partial<ServedKey> & { otherService: string | undefined };

/** Prints what happens in a running server, as text or (with `--json`) as one event per line. */
export function createEventPrinter(
  options: ServeOptions,
  context: CommandContext,
  location: StoreLocation,
  secrets: Secrets,
) {
  const { quiet, command, data, plan } = options;
  const { console, platform } = context;
  const hasCommand = command.length > 0;
  const { bold, cyan, dim } = console.colors;
  let hasStarted = false;

  /** Prints to stdout, or to stderr if there is a command, which uses stdout. With `quiet`, only JSON on stdout. */
  const print = async (event: Record<string, unknown>, text: string) => {
    hasStarted = true;
    try {
      if (hasCommand) {
        if (!quiet) console.event(event, text);
      } else if (console.json) await console.writeJson(event);
      else if (!quiet) await console.write(`${text}\n`);
    } catch (error) {
      // The reader may close the pipe after the first line. The server keeps running.
      if (!isClosedPipe(error)) throw error;
    }
  };

  /** Prints the address and everything that is needed to use the server, and notes, also about ignored options. */
  async function listening(
    service: Service,
    { key, plan: keyPlan, otherService }: ProvidedKey,
  ): Promise<void> {
    const { url, port, seeded, store, token, pageUrl } = service;
    const animals = await store.size();
    const openapi = new URL('/openapi.json', url).href;
    const page = pageUrl?.();
    const faults = service.faults && describeFaults(service.faults);
    // Logs are kept, so secrets that the user has chosen are not printed.
    const printedKey = secrets.key === undefined ? key : undefined;
    const printedToken = secrets.token === undefined ? token : '$PETS_SERVE_TOKEN';
    const event = {
      event: 'listening',
      url,
      openapi,
      port,
      pid: context.pid,
      store: store.id,
      directory: location.place,
      animals,
      seeded,
      ...(faults && { faults: service.faults }),
      ...(printedKey && { key: printedKey }),
      ...(keyPlan && { plan: keyPlan }),
      ...(secrets.token === undefined && { token }),
      ...(page && { page }),
    };
    const addKey = (wanted = DEFAULT_PLAN) => {
      const add = addDataOption(`pets keys add <name> --plan ${wanted}`, data, location, platform);
      return sanitizeForTerminal(`${add} | pets login --profile local --base-url ${url}`);
    };
    const next =
      options.profile && key !== undefined && otherService === undefined
        ? 'pets --profile local list'
        : withEnvironment({ PETS_BASE_URL: url, PETS_API_KEY: printedKey ?? '<key>' }, 'pets list', platform);
    const lines = hasCommand
      ? [
          `pets serve: listening on ${url}, running: ${sanitizeForTerminal(command.join(' '))}`,
          faults,
          page && pageLine(page),
        ]
      : [
          `${bold('pets serve')} ${cyan(url)}`,
          `  ${formatCount(animals, 'animal')} in ${sanitizeForTerminal(location.place)}${options.ephemeral ? ' (deleted on exit)' : ''}`,
          key === undefined
            ? `  no API key of this store is saved here; create one: ${addKey(keyPlan ?? plan)}`
            : `  API key ${printedKey ?? `from ${sanitizeForTerminal(secrets.source)}`} (plan ${keyPlan})`,
          faults && `  ${faults}`,
          `  API described in ${cyan(openapi)}`,
          page && `  page ${cyan(page)}`,
          page &&
            `  tools: curl -H "Authorization: Bearer ${printedToken}" ${new URL('/requests', url).href}`,
          `  ${dim('try:')} ${next}`,
        ];
    await print(event, lines.filter((line) => line !== undefined).join('\n'));
    if (quiet) return;
    // If no key of a shared store is saved here, none is created. `--plan` is not ignored then: `lines` has a command
    // that creates a key of this plan.
    const hasOtherPlan = plan !== undefined && keyPlan !== plan && !(location.isShared && !keyPlan);
    const notices = [
      options.seed !== undefined && !seeded && 'store is not empty; --seed was ignored',
      !page &&
        options.page === undefined &&
        'other machines may reach this server, so it has no page and no other developer tools; to have them: --page',
      !service.isLoopback &&
        !options.publicUrl?.startsWith('https:') &&
        'other machines can reach this server, and API keys are sent to it unencrypted; use a reverse proxy with TLS, and set --public-url to its https URL',
      hasOtherPlan &&
        `--plan ${plan} was ignored, because the store is not new and ${keyPlan ? `its key has plan ${keyPlan}` : 'it has keys'}; to add a key: ${addKey(plan)}`,
      otherService !== undefined &&
        `profile local was not changed, because it points to another machine: ${otherService}`,
    ];
    for (const notice of notices) if (notice) console.notice(notice);
  }

  return {
    listening,
    /** Prints the new address of the page, after the previous one was used. Ignores output errors. */
    pageUrl(url: string) {
      print({ event: 'page', page: url }, pageLine(url)).catch(() => {});
    },
    /** Prints that the server has stopped, if it was started. Ignores output errors, because the process exits next. */
    async stopped() {
      if (hasStarted) await print({ event: 'stopped' }, 'pets serve: stopped').catch(() => {});
    },
    warning: (message: string) => console.notice(message),
    internalError(error: unknown) {
      const { message } = toCliError(error);
      console.event({ error: { code: 'internal_error', message } }, `error: ${sanitizeForTerminal(message)}`);
    },
    request: createRequestPrinter(options, context),
  };
}

const pageLine = (url: string): string => `pets serve: page ${url}`;

/** Describes the faults, with the seed that repeats the random ones; undefined if there are none. */
function describeFaults({ latency, failRate, seed, rules = [] }: FaultOptions): string | undefined {
  const parts: string[] = [];
  if (latency) {
    const { min, max } = latency;
    parts.push(`responses delayed by ${min === max ? min : `${min} to ${max}`} ms`);
  }
  if (failRate !== undefined) parts.push(`${Number((failRate * 100).toPrecision(3))}% of requests fail`);
  if (rules.length > 0) parts.push(formatCount(rules.length, 'rule'));
  if (parts.length === 0) return undefined;
  const isRandom = failRate !== undefined || (latency !== undefined && latency.min !== latency.max);
  return `faults: ${parts.join(', ')}${isRandom ? ` (--fault-seed ${seed})` : ''}`;
}

/** With these outcomes, a response below 400 needs no reason. */
const ORDINARY: readonly RequestSummary['outcome'][] = ['counted', 'replayed', 'not_counted'];

/** If nothing reads the log, requests are not logged while more than this many bytes are buffered. */
const MAX_LOG_BYTES = 2 ** 20;

/**
 * Returns a function that logs requests to stderr (docs/serve.md). If a command runs, the function also prints one hint
 * about the rate limit, because tests often reach the limit unnoticed. Undefined if there is nothing to print.
 */
function createRequestPrinter(
  { log, plan = DEFAULT_PLAN, command, quiet = false }: ServeOptions,
  { console, stderr }: CommandContext,
): OnAccess | undefined {
  const isLogging = log ?? (stderr.isTTY === true && command.length === 0 && !quiet);
  const { dim } = console.errorColors;
  let isLimitReported = plan === 'enterprise' || command.length === 0 || quiet;
  let dropped = 0;
  if (!isLogging && isLimitReported) return undefined;

  const formatTime = createTimeFormatter(console.timeZone());
  const print = (time: number, describe: () => RequestSummary) => {
    if (stderr.writableLength > MAX_LOG_BYTES) {
      dropped++;
      return;
    }
    if (dropped > 0)
      console.notice(
        `not logged because stderr was not read fast enough: ${formatCount(dropped, 'request')}`,
      );
    dropped = 0;
    const summary = describe();
    const { id, client, keyName, method, url, status = 0, milliseconds, outcome, because } = summary;
    const request = {
      time: new Date(time).toISOString(),
      id,
      ...(keyName !== undefined && { keyName }),
      client,
      method,
      url,
      status,
      milliseconds,
    };
    // The date and the zone are not on the screen, and the other fields only in the JSON.
    const [, clockTime = ''] = formatTime(time).split(' ');
    const line = `${clockTime} ${method} ${sanitizeForTerminal(url)} ${status} ${Math.round(milliseconds)} ms`;
    const isOrdinary = status < 400 && ORDINARY.includes(outcome) && summary.foreignOrigin === undefined;
    const reason = isOrdinary ? '' : `\n  ${sanitizeForTerminal(because)}`;
    console.event({ request }, dim(line) + reason);
  };

  return ({ time, code, asked, keyName }, describe) => {
    if (isLogging) print(time, describe);
    // A mocked 429 does not mean that a limit is used up.
    const isOverLimit = code === 'rate_limited' && asked === undefined;
    if (isLimitReported || !isOverLimit || keyName === undefined) return;
    isLimitReported = true;
    const { perMinute, perDay } = plans[plan];
    console.notice(
      `the command has used up a rate limit of plan ${plan} (${perMinute} requests per minute, ${perDay} per day); for practically no limits: pets serve --plan enterprise -- …`,
    );
  };
}
