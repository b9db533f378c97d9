import type { OnAccess, Service } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { createTimeFormatter } from '../../system/time-text.ts';
import { toCliError } from '../core/errors.ts';
import { isClosedPipe } from '../output/console.ts';
import { formatCount, sanitizeForTerminal } from '../output/text.ts';
import { isLoopbackUrl } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import type { ProvidedKey, Secrets } from './api-key.ts';
import { addDataOption, DEFAULT_PLAN, type ServeOptions } from './options.ts';

/** Prints what happens in a running server, as text or (with `--json`) as one event per line. */
export function createEventPrinter(
  options: ServeOptions,
  context: CommandContext,
  location: StoreLocation,
  secrets: Secrets,
) {
  const { command, data, plan } = options;
  const { console, platform, globals } = context;
  const hasCommand = command.length > 0;
  const { bold, cyan, dim } = console.colors;

  /** Prints to stdout, or to stderr if there is a command, which uses stdout. With `quiet`, only JSON on stdout. */
  const print = async (event: Record<string, unknown>, text: string) => {
    try {
      if (hasCommand) {
        if (!globals.quiet) console.event(event, text);
      } else if (console.json) await console.writeJson(event);
      else if (!globals.quiet) await console.write(`${text}\n`);
    } catch (error) {
      // The reader may close the pipe after the first line. The server keeps running.
      if (!isClosedPipe(error)) throw error;
    }
  };

  /** Prints the address and everything that is needed to use the server, and notes, for example about ignored options. */
  async function listening(
    service: Service,
    { served, isProfileSaved, otherService }: ProvidedKey,
  ): Promise<void> {
    const { url, port, seeded, store, token, pageUrl, faults } = service;
    const animals = await store.size();
    const openapi = new URL('/openapi.json', url).href;
    const page = pageUrl?.();
    // Logs are kept, so secrets that the user has chosen are not printed.
    const printedKey = secrets.key === undefined ? served?.key : undefined;
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
      ...(faults && { faults }),
      ...(printedKey && { key: printedKey }),
      ...(served && { plan: served.plan }),
      ...(secrets.token === undefined && { token }),
      ...(page && { page }),
    };
    const isOwnUrl = isLoopbackUrl(new URL(url));
    const words = `pets keys add laptop --plan ${plan ?? DEFAULT_PLAN}`;
    const addKey = addDataOption(words, data, location, context);
    const createKey = isOwnUrl ? `${addKey} | pets login --profile local --base-url ${url}` : addKey;
    const withVariables =
      platform === 'win32'
        ? `$env:PETS_BASE_URL='${url}'; $env:PETS_API_KEY='${printedKey}'; pets list`
        : `PETS_BASE_URL=${url} PETS_API_KEY=${printedKey} pets list`;
    const next = isProfileSaved || !served ? 'pets --profile local list' : printedKey && withVariables;
    const isRandom = faults && (faults.failRate !== undefined || faults.latency?.min !== faults.latency?.max);
    const kept = options.ephemeral ? ' (deleted on exit)' : '';
    const keyText = printedKey ?? `from ${sanitizeForTerminal(secrets.source)}`;
    // In Windows PowerShell, curl is an alias of another command.
    const [curl, variable] =
      platform === 'win32' ? ['curl.exe', '$env:PETS_SERVE_TOKEN'] : ['curl', '$PETS_SERVE_TOKEN'];
    const shownToken = secrets.token === undefined ? token : variable;
    const all = [
      `${bold('pets serve')} ${cyan(url)}`,
      `  ${formatCount(animals, 'animal')} in ${sanitizeForTerminal(location.place)}${kept}`,
      served
        ? `  API key ${keyText} (plan ${served.plan})`
        : `  no API key of this store is saved here; create one: ${sanitizeForTerminal(createKey)}`,
      isRandom && `  faults: --fault-seed ${faults.seed} repeats the random ones`,
      `  API described in ${cyan(openapi)}`,
      page && `  page ${cyan(page)}`,
      page && `  tools: ${curl} -H "Authorization: Bearer ${shownToken}" ${new URL('/requests', url).href}`,
      next && isOwnUrl && `  ${dim('try:')} ${next}`,
    ];
    const few = [
      `pets serve: listening on ${url}, running: ${sanitizeForTerminal(command.join(' '))}`,
      isRandom && `pets serve: --fault-seed ${faults.seed} repeats the random faults`,
      page && `pets serve: page ${page}`,
    ];
    await print(event, (hasCommand ? few : all).filter(Boolean).join('\n'));
    const notices = [
      options.seed !== undefined &&
        !seeded &&
        'the store is not empty, so --seed was ignored; for another store: --ephemeral, or --data <directory>',
      !page &&
        options.page === undefined &&
        'other machines may reach this server, so it has no page and no other developer tools; to have them: --page',
      !service.isLoopback &&
        !options.publicUrl?.startsWith('https:') &&
        'other machines may reach this server, and clients send API keys to it unencrypted; use a reverse proxy with TLS, and set --public-url to its https URL',
      plan !== undefined &&
        served &&
        served.plan !== plan &&
        `--plan ${plan} was ignored, because the store is not new and its key has plan ${served.plan}; to add a key: ${createKey}`,
      otherService !== undefined &&
        `profile local was not changed, because it belongs to another service: ${otherService}`,
    ];
    for (const notice of notices) if (notice) console.notice(notice);
  }

  return {
    listening,
    /** Prints the new address of the page, after the previous one was used. Ignores output errors. */
    pageUrl(url: string) {
      print({ event: 'page', page: url }, `pets serve: page ${url}`).catch(() => {});
    },
    /** Prints that the server has stopped. Ignores output errors, because the process exits next. */
    stopped: () => void print({ event: 'stopped' }, 'pets serve: stopped').catch(() => {}),
    /** Prints a problem. `console.notice` is not used, because it prints nothing with --quiet. */
    warning: (message: string) =>
      console.event(
        { notice: message },
        `${console.errorColors.yellow('note:')} ${sanitizeForTerminal(message)}`,
      ),
    internalError(error: unknown) {
      const { message, hint } = toCliError(error);
      const text = `error: ${[message, hint].filter(Boolean).join('; ')}`;
      console.event({ error: { code: 'internal_error', message, hint } }, sanitizeForTerminal(text));
    },
    request: createRequestPrinter(options, context),
  };
}

/** If nothing reads the log, requests are not logged while more than this many bytes are buffered. */
const MAX_LOG_BYTES = 2 ** 20;

/** Returns a function that logs requests to stderr (docs/serve.md); undefined if they are not logged. */
function createRequestPrinter(
  { log, command }: ServeOptions,
  { console, stderr, globals }: CommandContext,
): OnAccess | undefined {
  if (!(log ?? (stderr.isTTY && command.length === 0 && !globals.quiet))) return undefined;
  const { dim } = console.errorColors;
  const formatTime = createTimeFormatter(console.messageTimeZone());
  let dropped = 0;

  return ({ time }, describe) => {
    if (stderr.writableLength > MAX_LOG_BYTES) {
      dropped++;
      return;
    }
    if (dropped > 0)
      console.notice(`${formatCount(dropped, 'request')} not logged: stderr was not read fast enough`);
    dropped = 0;
    const { id, client, keyName, method, url, status = 0, milliseconds, because, foreignOrigin } = describe();
    const reason = status >= 400 || foreignOrigin !== undefined ? because : undefined;
    const request = { id, keyName, client, method, url, status, milliseconds, because: reason };
    // The line has the time without the date and the zone. Only the JSON has all fields.
    const [, clockTime = ''] = formatTime(time).split(' ');
    const line = `${clockTime} ${method} ${sanitizeForTerminal(url)} ${status} ${Math.round(milliseconds)} ms`;
    const below = reason === undefined ? '' : `\n  ${sanitizeForTerminal(reason)}`;
    console.event({ request: { time: new Date(time).toISOString(), ...request } }, dim(line) + below);
  };
}
