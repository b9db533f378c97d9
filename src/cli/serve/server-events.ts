import { type PlanName, plans } from '../../contract/plans.ts';
import type { AccessLogEntry } from '../../server/app.ts';
import type { Service } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { describeError } from '../errors/describe-error.ts';
import { isClosedPipe } from '../output/console.ts';
import { formatCount } from '../output/format-count.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { shellQuote, withEnvironment } from '../output/shell-words.ts';
import { placeFromVariable } from '../profiles/location.ts';
import type { CommandContext } from '../program/command.ts';
import { createAccessLog } from './access-log.ts';
import type { DevKey } from './dev-key.ts';
import { describeFaults } from './faults.ts';
import { DEFAULT_PLAN, type ServeOptions } from './options.ts';

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
  const { bold, cyan, dim } = console.colours;
  const isLogging = options.log ?? (context.stderr.isTTY === true && command.length === 0 && !quiet);

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
  const warn = ({ seeded, isLoopback }: Service) => {
    if (options.seed !== undefined && !seeded) console.notice('store is not empty; --seed ignored');
    if (!isLoopback && !options.publicUrl?.startsWith('https:')) {
      console.notice(
        'other machines can reach this server, and API keys are sent to it unencrypted; use a reverse proxy with TLS',
      );
    }
  };
  /** The command that adds a key to the store. It needs no --data if PETS_DATA names the store. */
  const addKeyCommand = ({ place }: StoreLocation, plan: PlanName) => {
    const isFromVariable = options.data === undefined && placeFromVariable(context.env) !== undefined;
    const words = ['--plan', plan, '--save', ...(isFromVariable ? [] : ['--data', place])];
    return `pets keys add <name> ${sanitizeForTerminal(shellQuote(words, context.platform))}`;
  };
  const log = isLogging ? createAccessLog(context) : undefined;
  let isLimitReported = options.plan === 'enterprise' || command.length === 0;
  /** Prints one hint about the rate limit, because tests often run into the limit without noticing it. */
  const reportLimit = ({ code, keyName }: AccessLogEntry) => {
    if (isLimitReported || code !== 'rate_limited' || keyName === undefined) return;
    isLimitReported = true;
    const plan = options.plan ?? DEFAULT_PLAN;
    const { perMinute, perDay } = plans[plan];
    console.notice(
      `the command has used up a rate limit of plan ${plan} (${perMinute} requests per minute, ${perDay} per day); to test without limits: pets serve --plan enterprise -- …`,
    );
  };

  return {
    async listening(service: Service, { location, devKey, otherService }: Started) {
      const animals = await service.store.size();
      const { url, port, seeded, faults, tools } = service;
      const described = faults && describeFaults(faults);
      const key = devKey?.source === undefined ? devKey?.key : undefined;
      const event = {
        event: 'listening',
        url,
        port,
        pid: context.pid,
        store: service.store.id,
        directory: location.place,
        animals,
        seeded,
        ...(described && { faults }),
        ...(key && { key }),
        ...(devKey && { plan: devKey.plan }),
        ...(tools && { pageToken: tools.token }),
      };
      const path = sanitizeForTerminal(location.place);
      const variables = { PETS_BASE_URL: url, PETS_API_KEY: key ?? '<key>' };
      const isInProfile = options.profile && devKey?.key !== undefined && otherService === undefined;
      const next = isInProfile
        ? 'pets --profile local list'
        : withEnvironment(variables, 'pets list', context.platform);
      const lines = [
        `${bold('pets serve')} ${cyan(url)}`,
        `  ${formatCount(animals, 'animal')} in ${path}${options.ephemeral ? ' (deleted on exit)' : ''}`,
        devKey?.key === undefined
          ? `  no API key of this store is saved here; create one: ${addKeyCommand(location, devKey?.plan ?? options.plan ?? DEFAULT_PLAN)}`
          : `  API key ${key ?? `from ${sanitizeForTerminal(devKey.source ?? '')}`} (plan ${devKey.plan})`,
        ...(described ? [`  ${described}`] : []),
        `  ${dim('try:')} ${next}`,
      ];
      await print(event, lines.join('\n'));
      warn(service);
      const { plan } = options;
      // A shared store gets no key. The first lines show a command with this plan.
      const hasNoKey = location.isShared && devKey === undefined;
      if (plan !== undefined && devKey?.plan !== plan && !hasNoKey) {
        const has = devKey ? `its key has plan ${devKey.plan}` : 'it has keys';
        console.notice(
          `--plan ${plan} ignored, because the store is not new and ${has}; to add a key: ${addKeyCommand(location, plan)}`,
        );
      }
      if (otherService)
        console.notice(
          `profile local was not changed, because it points to a running service at ${otherService}`,
        );
    },
    async runningCommand(service: Service, key: string) {
      const { url, faults, tools } = service;
      const described = faults && describeFaults(faults);
      const lines = [
        `pets serve: listening on ${url}, running: ${sanitizeForTerminal(command.join(' '))}`,
        ...(described ? [described] : []),
      ];
      await print(
        {
          event: 'listening',
          url,
          key,
          ...(described && { faults }),
          ...(tools && { pageToken: tools.token }),
        },
        lines.join('\n'),
      );
      warn(service);
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
    request:
      log === undefined && isLimitReported
        ? undefined
        : (entry: AccessLogEntry) => {
            log?.(entry);
            reportLimit(entry);
          },
  };
}
