import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createReadStream, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import { INT64_MAX, int64 } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import { type FaultOptions, FaultRules } from '../../server/faults.ts';
import { sampleData } from '../../server/sample-data.ts';
import { isLocal, type OpenedStore, type Service, startService } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { StoreError } from '../../store/errors.ts';
import type { Seed } from '../../store/store.ts';
import { findLockOwner } from '../../system/directory-lock.ts';
import { errnoOf, isUnwritable } from '../../system/file-system.ts';
import type { Context, Signal } from '../core/context.ts';
import { CliError, systemReason, toCliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { parseJsonDocument, readInput, requireUtf8 } from '../core/input.ts';
import type { Console } from '../output/console.ts';
import { DEFAULT_PORT } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { ensureDevKey, readSecrets, type Secrets, saveLocalProfile } from './api-key.ts';
import { DEFAULT_PLAN, type ServeOptions } from './options.ts';
import { runCommand, STOP_SIGNALS } from './run-command.ts';
import { createEventPrinter, type EventPrinter, type ProvidedKey } from './server-events.ts';
import { findStoreLocation } from './store-location.ts';
import { deleteLeftStores, makeTemporaryDirectory } from './temporary-stores.ts';

/** How long running requests may take to finish when the server stops, in milliseconds. */
export const GRACE_PERIOD = 3_500;

/** How long the log may take to be written at exit, in milliseconds. */
export const FLUSH_TIMEOUT = 1_000;

/** Runs the server until a signal, a store failure, or the exit of the command given after `--`. */
export async function runServer(options: ServeOptions, context: CommandContext): Promise<number> {
  // Read the files and variables of the user before anything is created.
  const secrets = await readSecrets(options.keyFile, context, () => isLocalServer(options));
  for (const secret of [secrets.key, secrets.token]) if (secret) context.console.redact(secret);
  const faults = await initialFaults(options, context);
  const ending: Ending = { controller: new AbortController(), isCommandRunning: false };
  let directory: string | undefined;
  // The first signal stops the server, the second exits immediately. Signals are handled as long as the temporary store
  // exists, because a signal that is not handled would leave it.
  const stopHandling = context.onSignal(STOP_SIGNALS, (signal) => {
    if (ending.isCommandRunning) return;
    if (ending.signal !== undefined) {
      // The removal must be synchronous, because the process exits immediately afterwards.
      if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
      context.exitNow(128 + constants.signals[signal]);
    }
    ending.signal = signal;
    ending.controller.abort(signal);
  });
  let code: number;
  try {
    if (options.ephemeral) directory = await makeTemporaryDirectory(context);
    const location = await findStoreLocation(directory ?? options.data, context);
    code = await serve({ options, context, location, secrets, faults }, ending);
    // The store can also fail after a signal. Then, that is the reason to report.
    if (ending.failure) throw ending.failure;
  } finally {
    if (directory !== undefined) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    // After a failure, a signal must not end the process before the reason is printed.
    if (ending.failure) setImmediate(stopHandling);
    else stopHandling();
  }
  await flushLog(context, code);
  return code;
}

/** What a run of the server needs. */
type Run = {
  options: ServeOptions;
  context: CommandContext;
  location: StoreLocation;
  secrets: Secrets;
  faults: FaultOptions;
};

/** Why the server stops. */
type Ending = {
  /** Aborted with the first reason: the name of a signal, or the error of a store that can no longer be read. */
  controller: AbortController;
  /** While the command runs, `runCommand` handles the signals. */
  isCommandRunning: boolean;
  signal?: Signal;
  /** Why the store has failed. */
  failure?: Error;
};

/** Starts the service, reports it, waits for the reason to stop, and stops it. @returns the exit code */
async function serve(run: Run, ending: Ending): Promise<number> {
  const { options, context, location, secrets } = run;
  const { command, host } = options;
  const port = options.port ?? (command.length > 0 ? 0 : DEFAULT_PORT);
  const { signal: ended } = ending.controller;
  const events = createEventPrinter(options, context, location, secrets);
  let service: Service | undefined;
  let served: ProvidedKey = { otherService: undefined };
  const stopped = new AbortController();
  try {
    service = await startService({
      ...serviceOptions(run, events),
      port,
      signal: ended,
      // What a user finds after the start must work from the first request: the key and profile `local`.
      async prepare(opened) {
        served = await provideKey(run, opened, events.warning);
      },
      onFailure(error) {
        ending.failure ??= error;
        ending.controller.abort(error);
      },
    });
    // The result is not awaited: a start does not depend on what killed servers have left.
    void deleteLeftStores(context, stopped.signal);
    await events.listening(service, served);
    ended.throwIfAborted();
    if (command.length > 0) {
      const { url, token } = service;
      const variables = { PETS_BASE_URL: url, PETS_API_KEY: served.key ?? '', PETS_SERVE_TOKEN: token };
      ending.isCommandRunning = true;
      const code = await runCommand(context, command, variables, ended).finally(() => {
        ending.isCommandRunning = false;
      });
      ended.throwIfAborted();
      return code;
    }
    await once(ended, 'abort');
    throw ended.reason;
  } catch (error) {
    if (isAddressError(error))
      throw cannotListen(`${host}:${port}`, error, await findRunningServer(location));
    if (error instanceof Error || error !== ended.reason) throw error;
    return command.length > 0 ? 128 + constants.signals[error as Signal] : exitCodes.ok;
  } finally {
    stopped.abort();
    await service?.stop(GRACE_PERIOD);
    await events.stopped();
  }
}

/** The options of the service that do not depend on the course of the run. */
function serviceOptions({ options, context, location, secrets, faults }: Run, events: EventPrinter) {
  const { seed } = options;
  return {
    location,
    host: options.host,
    clock: context.clock,
    sleep: context.sleep,
    bans: { after: options.banAfter, milliseconds: options.banFor * 1_000 },
    publicUrl: options.publicUrl,
    trustedProxies: options.trustProxy,
    allowHosts: options.allowHost ?? [],
    page: options.page,
    token: secrets.token,
    secrets: secrets.key === undefined ? [] : [secrets.key],
    resettable: options.resettable || options.ephemeral,
    cors: options.cors ?? [],
    faults,
    seed: seed === undefined ? undefined : (signal?: AbortSignal) => readSeed(seed, context, signal),
    seedName: seed === true ? 'the sample data' : seed,
    onPageUrl: events.pageUrl,
    onWarning: events.warning,
    onError: events.internalError,
    onAccess: events.request,
  };
}

/** Whether the server is only for programs on this machine. @throws CliError if the address of `--host` is not found */
async function isLocalServer({ host, publicUrl, trustProxy, allowHost }: ServeOptions): Promise<boolean> {
  const { address } = await lookup(host).catch((error) => {
    throw cannotListen(host, error);
  });
  return isLocal(address, { publicUrl, trustedProxies: trustProxy, allowHosts: allowHost ?? [] });
}

/** Waits a second for buffered log output. Exits if some is left, because unread output keeps the process alive. */
async function flushLog({ stderr, sleep, exitNow }: Context, code: number): Promise<void> {
  if (stderr.writableLength === 0) return;
  await sleep(FLUSH_TIMEOUT, new AbortController().signal);
  if (stderr.writableLength > 0) exitNow(code);
}

/**
 * Provides the API key of this run. With a fixed key, `--ephemeral` or a command, only this server accepts the key.
 * Otherwise, it is a key of the store. Except with a command or `--no-profile`, `saveLocalProfile` saves the key. If a key
 * or the profile cannot be saved, for example because a container has no home directory, the server starts anyway.
 */
async function provideKey(
  { options, context, location, secrets }: Run,
  service: OpenedStore,
  warn: (message: string) => void,
): Promise<ProvidedKey> {
  const { plan = DEFAULT_PLAN, profile, ephemeral } = options;
  const hasCommand = options.command.length > 0;
  const addTemporary = (name: string) => ({
    plan,
    key: service.keys.addTemporary(name, plan, secrets.key),
  });
  /** Does instead what needs no file. The errors of a store are not about convenience, except that its disk is full. */
  const orElse =
    <Result>(consequence: string, instead: () => Result) =>
    (error: Error): Result => {
      if (error instanceof StoreError && !isUnwritable(error.cause)) throw error;
      warn(`${toCliError(error).message}; ${consequence}`);
      return instead();
    };
  const name = hasCommand ? '(command)' : secrets.key === undefined ? '(ephemeral)' : '(fixed)';
  const served =
    hasCommand || ephemeral || secrets.key !== undefined
      ? addTemporary(name)
      : await ensureDevKey(context, service, location, { plan, profile }).catch(
          orElse('so the API key of this server is not kept; to create one that is: pets keys add', () =>
            location.isShared ? undefined : addTemporary('(not kept)'),
          ),
        );
  const otherService =
    profile && !hasCommand && served?.key
      ? await saveLocalProfile(context, service.url, served.key).catch(
          orElse('so profile local was not saved; to start without it: --no-profile', () => undefined),
        )
      : undefined;
  return { ...served, otherService };
}

/** Whether the address of `--host` cannot be found, or cannot be used with the port. */
const isAddressError = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && /^(getaddrinfo|listen|bind)$/.test(String(error.syscall));

/** @param running says which server uses the store */
function cannotListen(address: string, error: unknown, running?: string): CliError {
  const isInUse = errnoOf(error) === 'EADDRINUSE';
  const server = isInUse && running !== undefined ? `; ${running}` : '';
  const hints: Record<string, string> = {
    EADDRINUSE: `${server === '' ? '' : 'use it, or stop it; '}for another server: --port 0 (any free port) with --ephemeral or --data <dir>`,
    EACCES: 'use another port with --port, or any free port with --port 0',
  };
  return new CliError(`cannot listen on ${address}: ${systemReason(error)}${server}`, {
    code: 'cannot_listen',
    hint:
      hints[errnoOf(error) ?? ''] ?? 'use an address of this machine, or omit --host to listen on 127.0.0.1',
    cause: error,
  });
}

/** Says which server uses the store in a directory, for a user who has started it twice. */
async function findRunningServer({ place, isShared }: StoreLocation): Promise<string | undefined> {
  const directory = resolve(place);
  const owner = isShared ? undefined : await findLockOwner(directory);
  if (owner?.url === undefined) return undefined;
  return `pets serve (process ${owner.pid}) already runs at ${owner.url} with the store in ${directory}`;
}

/** The faults at the start. The random ones depend on their seed. */
async function initialFaults(
  { latency, failRate, faultSeed, faults: path }: ServeOptions,
  { random }: Pick<Context, 'random'>,
): Promise<FaultOptions> {
  return {
    latency,
    failRate,
    seed: faultSeed ?? Math.floor(random() * 2 ** 32),
    rules: path === undefined ? undefined : await readRules(path),
  };
}

/** Reads a file that has the form of a body of `PUT /faults`. @throws CliError */
async function readRules(path: string): Promise<FaultOptions['rules']> {
  const text = requireUtf8(await readInput(createReadStream(path), path), path).toString();
  const document = parseJsonDocument(text, path);
  const { success, data, error } = z.safeParse(FaultRules, document);
  if (!success) throw usageError(`${path}: ${describeIssues(error, 'the document')}`);
  return data.rules;
}

const readSeed = async (seed: string | true, { clock, console }: CommandContext, signal?: AbortSignal) =>
  seed === true ? sampleData(clock.now()) : readSeedFile(seed, console, signal);

/** The ids that an animal of a seed file may have. */
const ID_BOUNDS = `from 1 to ${INT64_MAX - 1n}`;

/**
 * Reads the animals of a seed file. Animals with an id keep it. Other animals get ids above the largest id in the file.
 * A JSON document can have orders, too. Prints the errors of rows on stderr.
 *
 * @throws CliError if the file cannot be read or has an error; the reason of `signal` if it is aborted
 */
export async function readSeedFile(path: string, console: Console, signal?: AbortSignal): Promise<Seed> {
  const used = new Set<bigint>();
  const id = int64.check(
    z.refine((value) => value >= 1n && value < INT64_MAX, `must be a whole number ${ID_BOUNDS}`),
    z.refine((value) => used.size < used.add(value).size, 'is already used by an earlier row'),
  );
  const SeedPet = z.object({ id: z.optional(id), ...NewPet.shape }, { error: 'must be a JSON object' });
  const text = requireUtf8(await readInput(createReadStream(path), path, signal), path);
  const { checkRows } = await import('../rows/read-file.ts');
  const { rows, orders } = checkRows(text, SeedPet, { name: path, console, refused: 'nothing was added' });
  await nextTurn();
  signal?.throwIfAborted();
  let last = rows.reduce((max, { pet }) => (pet.id !== undefined && pet.id > max ? pet.id : max), 0n);
  // Changes the animals in place, because a million copies take 100 MB.
  const pets = rows
    .map(({ pet }) => Object.assign(pet, { status: pet.status ?? 'available', id: pet.id ?? ++last }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  return { pets, orders };
}
