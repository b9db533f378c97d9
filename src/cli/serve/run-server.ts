import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createReadStream, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import spawn from 'cross-spawn';
import * as z from 'zod/mini';
import { describeFirstIssue } from '../../contract/issues.ts';
import { findJsonError, parseJson } from '../../contract/json.ts';
import type { FaultSettings } from '../../server/faults/fault-settings.ts';
import type { FaultOptions } from '../../server/faults/faults.ts';
import { sampleData } from '../../server/sample-data.ts';
import { isLocal, type Service, startService } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { fileSystemHint } from '../../store/errors.ts';
import { errnoOf, isUnwritable } from '../../system/file-system.ts';
import type { Context, Signal } from '../core/context.ts';
import { CliError, systemReason, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { DEFAULT_PORT } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { readInput, utf8Text } from '../rows/input.ts';
import {
  announceServer,
  ensureDevKey,
  type FixedKey,
  readFixedKey,
  readToken,
  saveLocalProfile,
} from './api-key.ts';
import { DEFAULT_PLAN, type ServeOptions } from './options.ts';
import { createServerEvents, type ServerEvents } from './server-events.ts';
import { openLocation } from './store-location.ts';

/** How long running requests may take to finish when the server stops, in milliseconds. */
export const GRACE_PERIOD = 3_500;

/** How long the log may take to be written at exit, in milliseconds. */
export const FLUSH_TIMEOUT = 1_000;

/** A run of the server, from the start to the exit. */
type Run = {
  options: ServeOptions;
  context: CommandContext;
  location: StoreLocation;
  fixedKey: FixedKey | undefined;
  /** The developer token that the user has chosen. */
  token: string | undefined;
  faults: FaultOptions;
  events: ServerEvents;
  shutdown: Shutdown;
};

/** Runs the server until a signal, a store failure, or the exit of the command given after `--`. */
export async function runServer(options: ServeOptions, context: CommandContext): Promise<number> {
  // Read what the user has prepared before anything is created.
  const fixedKey = await readFixedKey(options.keyFile, context, () => isLocalServer(options));
  if (fixedKey) context.console.redact(fixedKey.key);
  const token = readToken(context);
  if (token) context.console.redact(token);
  if (token !== undefined && token === fixedKey?.key) {
    throw usageError(
      'PETS_SERVE_TOKEN and the API key are the same',
      'use different ones, because an API key does not open the developer tools',
    );
  }
  const faults = await initialFaults(options, context);
  const directory = options.ephemeral ? await makeTemporaryDirectory(context) : undefined;
  let code: number;
  try {
    const location = await openLocation(directory ?? options.data, context);
    const events = createServerEvents(options, context);
    // The removal must be synchronous, because the process exits immediately afterwards.
    const onForcedExit = () => directory && rmSync(directory, { recursive: true, force: true });
    const shutdown = createShutdown(context, onForcedExit);
    code = await serveLocation({ options, context, location, fixedKey, token, faults, events, shutdown });
  } finally {
    // A start that was given up may still be writing to the directory, so try more than once.
    if (directory !== undefined) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }
  await flushLog(context, code);
  return code;
}

/** Whether the server is meant only for programs on this machine. @throws CliError if `--host` cannot be found */
async function isLocalServer({
  host,
  publicUrl,
  trustProxy,
  allowHost = [],
}: ServeOptions): Promise<boolean> {
  const { address } = await lookup(host).catch((error) => {
    throw cannotListen(host, error);
  });
  return isLocal(address, { publicUrl, trustedProxies: trustProxy, allowHosts: allowHost });
}

async function makeTemporaryDirectory({ temporaryDirectory }: Context): Promise<string> {
  try {
    return await mkdtemp(join(temporaryDirectory, 'pets-'));
  } catch (error) {
    throw new CliError(
      `cannot create a temporary directory in ${temporaryDirectory}: ${systemReason(error)}`,
      {
        code: 'file_error',
        hint: 'set TMPDIR to a directory that you can write to, or use --data <dir> instead of --ephemeral',
        cause: error,
      },
    );
  }
}

/** Waits a second for buffered log output. Exits if some is left, because unread output keeps the process alive. */
async function flushLog({ stderr, sleep, exitNow }: Context, code: number): Promise<void> {
  if (stderr.writableLength === 0) return;
  await sleep(FLUSH_TIMEOUT, new AbortController().signal);
  if (stderr.writableLength > 0) exitNow(code);
}

async function serveLocation(run: Run): Promise<number> {
  const { options, context, location, fixedKey, events, shutdown } = run;
  const plan = options.plan ?? DEFAULT_PLAN;
  // Listen for signals before anything is opened, so that a signal during the start stops the server too.
  shutdown.listen();
  let service: Service | undefined;
  let removeAnnouncement = async () => {};
  /** On a full or read-only disk, the server starts even if a key or a profile cannot be saved. */
  const warnIfUnwritable = (error: Error) => {
    if (!isUnwritable(error.cause)) throw error;
    events.warning(error.message);
    return undefined;
  };
  try {
    service = await start(run);
    if (service === undefined) return interruptedCode(run);
    if (service.pageUrl && !options.ephemeral) removeAnnouncement = await announceServer(context, service);
    if (options.command.length > 0) {
      const key = service.keys.addTemporary('(command)', plan, fixedKey?.key);
      return await serveCommand(service, key, run);
    }
    const isTemporary = options.ephemeral || fixedKey !== undefined;
    const temporaryName = fixedKey ? '(fixed)' : '(ephemeral)';
    const devKey = isTemporary
      ? { plan, key: service.keys.addTemporary(temporaryName, plan, fixedKey?.key), source: fixedKey?.source }
      : await ensureDevKey(context, service, location, { plan, profile: options.profile }).catch(
          warnIfUnwritable,
        );
    const otherService =
      options.profile && devKey?.key
        ? await saveLocalProfile(context, service, devKey.key).catch(warnIfUnwritable)
        : undefined;
    await events.listening(service, { location, devKey, otherService });
    await shutdown.stopped();
    return exitCodes.ok;
  } finally {
    await removeAnnouncement();
    await service?.stop(GRACE_PERIOD);
    shutdown.unlisten();
    await events.stopped();
  }
}

/** The exit code after a signal at the start. */
const interruptedCode = ({ options: { command }, shutdown: { requested } }: Run): number =>
  command.length > 0 ? 128 + constants.signals[requested.reason as Signal] : exitCodes.ok;

/**
 * Starts the service. After a signal, waits `GRACE_PERIOD` for the current step, and then gives it up: adding a large seed
 * takes longer. The next start removes the files that such a step has left.
 *
 * @returns undefined if a signal ended the start
 */
async function start({
  options,
  context,
  location,
  fixedKey,
  token,
  faults,
  events,
  shutdown,
}: Run): Promise<Service | undefined> {
  const { host, seed } = options;
  const { requested } = shutdown;
  const port = options.port ?? (options.command.length > 0 ? 0 : DEFAULT_PORT);
  const ended = new AbortController();
  const givenUp = once(requested, 'abort', { signal: ended.signal }).then(() =>
    context.sleep(GRACE_PERIOD, ended.signal),
  );
  const starting = startService({
    location,
    host,
    port,
    clock: context.clock,
    sleep: context.sleep,
    bans: { after: options.banAfter, milliseconds: options.banFor * 1_000 },
    publicUrl: options.publicUrl,
    trustedProxies: options.trustProxy,
    allowHosts: options.allowHost ?? [],
    page: options.page,
    token,
    onPageUrl: events.pageUrl,
    secrets: fixedKey && [fixedKey.key],
    resettable: options.resettable || options.ephemeral,
    cors: options.cors ?? [],
    faults,
    seed: seed === undefined ? undefined : (signal) => readSeed(seed, context, signal),
    seedName: seed === true ? 'the sample data' : seed,
    signal: requested,
    onWarning: events.warning,
    onFailure: shutdown.fail,
    onError: events.internalError,
    onAccess: events.request,
  });
  try {
    return (await Promise.race([starting, givenUp])) ?? undefined;
  } catch (error) {
    if (requested.aborted && error === requested.reason) return undefined;
    throw isAddressError(error) ? cannotListen(`${host}:${port}`, error) : error;
  } finally {
    ended.abort();
  }
}

/** Whether the address of `--host` cannot be found, or cannot be used with the port. */
const isAddressError = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && /^(getaddrinfo|listen|bind)$/.test(String(error.syscall));

const cannotListen = (address: string, error: unknown) =>
  new CliError(`cannot listen on ${address}: ${systemReason(error)}`, {
    code: 'cannot_listen',
    hint: listenHint(errnoOf(error)),
    cause: error,
  });

function listenHint(errno: string | undefined): string {
  switch (errno) {
    case 'EADDRINUSE':
    case 'EACCES':
      return 'use another port with --port, or any free port with --port 0';
    case 'EMFILE':
    case 'ENFILE':
      return fileSystemHint(errno);
    default:
      return 'use an address of this machine, or omit --host to listen on 127.0.0.1';
  }
}

/** The faults at the start: those in the file of `--faults`, with the fields that other options replace. */
async function initialFaults(
  { latency, failRate, faultSeed, faults: path }: ServeOptions,
  { random }: Pick<Context, 'random'>,
): Promise<FaultOptions> {
  const settings: FaultSettings = path === undefined ? {} : await readFaultFile(path);
  return {
    latency: latency ?? settings.latency,
    failRate: failRate ?? settings.failRate,
    seed: faultSeed ?? settings.seed ?? Math.floor(random() * 2 ** 32),
    rules: settings.rules,
  };
}

/** Reads a file that has the form of a body of `PUT /faults`. @throws CliError */
async function readFaultFile(path: string): Promise<FaultSettings> {
  const text = utf8Text(await readInput(createReadStream(path), path), path).toString();
  const document = parseDocument(text, path);
  const { FaultSettings } = await import('../../server/faults/fault-settings.ts');
  const { success, data, error } = z.safeParse(FaultSettings, document);
  if (!success) throw usageError(`${path}: ${describeFirstIssue(error, 'the document')}`);
  return data;
}

function parseDocument(text: string, path: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    const found = findJsonError(text);
    const place = found === undefined ? path : `${path}, line ${found.line}`;
    throw usageError(`${place}: invalid JSON: ${(error as Error).message}`);
  }
}

async function readSeed(seed: string | true, { clock, console }: CommandContext, signal?: AbortSignal) {
  if (seed === true) return sampleData(clock.now());
  const { readSeedFile } = await import('../rows/read-file.ts');
  return readSeedFile(seed, console, signal);
}

async function serveCommand(service: Service, key: string, run: Run): Promise<number> {
  const { options, context, events, shutdown } = run;
  await events.runningCommand(service, key);
  const variables = {
    PETS_BASE_URL: service.url,
    PETS_API_KEY: key,
    PETS_SERVE_TOKEN: service.token,
  };
  const { requested, failure } = shutdown;
  if (requested.aborted) return interruptedCode(run);
  // `runCommand` handles signals while the command runs.
  shutdown.unlisten();
  try {
    const code = await runCommand(context, options.command, variables, failure);
    failure.throwIfAborted();
    return code;
  } finally {
    shutdown.listen();
  }
}

/** After `abort`, the command gets SIGTERM, and SIGKILL this many milliseconds later. */
const KILL_DELAY = 5_000;

/**
 * Runs a command with this process's streams and waits for its exit.
 * - SIGTERM and SIGHUP are forwarded. If the command has already received one of them, the next one kills the command.
 * - On a terminal, SIGINT is not forwarded, because Ctrl-C already reaches the whole process group.
 * - Elsewhere, every SIGINT is forwarded, because programs may treat a second SIGINT differently.
 * - If `abort` is aborted, the command gets SIGTERM, and SIGKILL after 5 s.
 *
 * The command stays in this process group, because it could not use the terminal otherwise. Therefore, a signal is
 * forwarded only to the command and not to its children.
 *
 * @returns the exit code of the command, or 128 + n if signal n ended the command, as in a shell
 * @throws CliError if the command cannot be started; the reason of `abort` if `abort` is already aborted
 */
export async function runCommand(
  context: Context,
  [file = '', ...args]: readonly string[],
  variables: Record<string, string>,
  abort: AbortSignal,
): Promise<number> {
  abort.throwIfAborted();
  const child = spawn(file, args, { stdio: 'inherit', env: { ...context.env, ...variables } });
  const ended = new AbortController();
  let isTerminating = false;
  const terminate = (signal: NodeJS.Signals) => {
    isTerminating = true;
    child.kill(signal);
  };
  const kill = () => child.kill('SIGKILL');
  const onAbort = () => {
    terminate('SIGTERM');
    context.sleep(KILL_DELAY, ended.signal).then(kill, () => {});
  };
  const cleanups = [
    context.onSignal(['SIGTERM', 'SIGHUP'], (signal) => (isTerminating ? kill() : terminate(signal))),
    context.onSignal(['SIGINT'], (signal) => !context.stdin.isTTY && child.kill(signal)),
    () => abort.removeEventListener('abort', onAbort),
  ];
  abort.addEventListener('abort', onAbort);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (error: NodeJS.ErrnoException) => reject(startError(file, error)));
      child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGTERM']));
    });
  } finally {
    ended.abort();
    for (const cleanup of cleanups) cleanup();
  }
}

function startError(file: string, cause: NodeJS.ErrnoException): CliError {
  const isMissing = cause.code === 'ENOENT';
  return new CliError(`cannot run ${file}: ${isMissing ? 'command not found' : cause.message}`, {
    code: isMissing ? 'command_not_found' : 'command_failed',
    hint: isMissing ? 'check its name' : 'check that it is executable',
    cause,
  });
}

type Shutdown = ReturnType<typeof createShutdown>;

/**
 * Watches for the first reason to stop the server: a signal, or a store that can no longer write.
 *
 * @param onForcedExit runs before a second signal ends the process
 */
function createShutdown({ onSignal, exitNow }: Context, onForcedExit: () => void) {
  const failure = new AbortController();
  const requested = new AbortController();
  let removeListeners = () => {};
  const either = AbortSignal.any([requested.signal, failure.signal]);
  return {
    /** Resolves after a signal. Rejects after a failure with the error passed to `fail`. */
    async stopped(): Promise<void> {
      if (!either.aborted) await once(either, 'abort');
      failure.signal.throwIfAborted();
    },
    fail: (error: Error) => failure.abort(error),
    /** This AbortSignal is aborted with the error passed to `fail`. */
    failure: failure.signal,
    /** This AbortSignal is aborted with the name of the first process signal. */
    requested: requested.signal,
    listen() {
      removeListeners = onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], (signal) => {
        if (requested.signal.aborted) {
          onForcedExit();
          exitNow(128 + constants.signals[signal]);
        }
        requested.abort(signal);
      });
    },
    unlisten: () => removeListeners(),
  };
}
