import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createReadStream, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import * as z from 'zod/mini';
import { describeFirstIssue } from '../../contract/issues.ts';
import { type FaultOptions, FaultSettings } from '../../server/faults.ts';
import { sampleData } from '../../server/sample-data.ts';
import { isLocal, type OpenedStore, type Service, startService } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { StoreError } from '../../store/errors.ts';
import { findLockOwner } from '../../system/directory-lock.ts';
import { errnoOf, isUnwritable } from '../../system/file-system.ts';
import type { Context, Signal } from '../core/context.ts';
import { CliError, systemReason, toCliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { readInput, requireUtf8 } from '../core/input.ts';
import { DEFAULT_PORT } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { parseJsonDocument } from '../rows/input.ts';
import { ensureDevKey, readSecrets, type Secrets, saveLocalProfile } from './api-key.ts';
import { DEFAULT_PLAN, type ServeOptions } from './options.ts';
import { runCommand, STOP_SIGNALS } from './run-command.ts';
import { writeServerFile } from './running-server.ts';
import { createEventPrinter, type EventPrinter, type ProvidedKey } from './server-events.ts';
import { findStoreLocation } from './store-location.ts';
import { deleteLeftStores, makeTemporaryDirectory } from './temporary-stores.ts';

/** How long running requests may take to finish when the server stops, in milliseconds. */
export const GRACE_PERIOD = 3_500;

/** How long the log may take to be written at exit, in milliseconds. */
export const FLUSH_TIMEOUT = 1_000;

/** How long the deletion of a store that another server has left may delay the exit, in milliseconds. */
const DELETION_TIMEOUT = 500;

/** A run of the server, from the start to the exit. */
type Run = {
  options: ServeOptions;
  context: CommandContext;
  location: StoreLocation;
  secrets: Secrets;
  faults: FaultOptions;
  events: EventPrinter;
  /** Aborted with the first reason to stop: the name of a signal, or the error of a store that can no longer be read. */
  ending: AbortController;
  /** While the command runs, `runCommand` handles the signals. */
  isCommandRunning: boolean;
  /** Why the store has failed. */
  failure?: Error;
};

/** Runs the server until a signal, a store failure, or the exit of the command given after `--`. */
export async function runServer(options: ServeOptions, context: CommandContext): Promise<number> {
  // Read the files and variables of the user before anything is created.
  const secrets = await readSecrets(options.keyFile, context, () => isLocalServer(options));
  for (const secret of [secrets.key, secrets.token]) if (secret) context.console.redact(secret);
  const faults = await initialFaults(options, context);
  const ending = new AbortController();
  let run: Run | undefined;
  let directory: string | undefined;
  let hasSignal = false;
  // The first signal stops the server, the second exits immediately. Signals are handled as long as the temporary store
  // exists, because a signal that is not handled would leave it.
  const stopHandling = context.onSignal(STOP_SIGNALS, (signal) => {
    if (run?.isCommandRunning) return;
    if (hasSignal) {
      // The removal must be synchronous, because the process exits immediately afterwards.
      if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
      context.exitNow(128 + constants.signals[signal]);
    }
    hasSignal = true;
    ending.abort(signal);
  });
  let code: number;
  try {
    if (options.ephemeral) directory = await makeTemporaryDirectory(context);
    const location = await findStoreLocation(directory ?? options.data, context);
    const events = createEventPrinter(options, context, location, secrets);
    run = { options, context, location, secrets, faults, events, ending, isCommandRunning: false };
    code = await serve(run);
    // The store can also fail after a signal. Then, that is the reason to report.
    if (run.failure) throw run.failure;
  } finally {
    // A start that was given up may still be writing to the directory, so try more than once.
    if (directory !== undefined) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    // After a failure, a signal must not end the process before the reason is printed.
    if (run?.failure) setImmediate(stopHandling);
    else stopHandling();
  }
  await flushLog(context, code);
  return code;
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

/** Starts the service, reports it, waits for the reason to stop, and stops it. @returns the exit code */
async function serve(run: Run): Promise<number> {
  const { options, context, events } = run;
  const { command } = options;
  const { signal: ended } = run.ending;
  let service: Service | undefined;
  let served: ProvidedKey = { otherService: undefined };
  let unannounce = async () => {};
  let stopDeleting = async () => {};
  try {
    // What a user finds after the start must work from the first request: the key, profile `local`, `pets keys list`.
    service = await start(run, async (opened) => {
      served = await provideKey(run, opened);
      if (opened.hasTools && !options.ephemeral)
        unannounce = await writeServerFile(context, run.location, opened);
    });
    if (service !== undefined) {
      stopDeleting = startDeleting(context);
      await events.listening(service, served);
      if (command.length > 0 && !ended.aborted) {
        const { url, token } = service;
        const variables = { PETS_BASE_URL: url, PETS_API_KEY: served.key ?? '', PETS_SERVE_TOKEN: token };
        run.isCommandRunning = true;
        const code = await runCommand(context, command, variables, ended).finally(() => {
          run.isCommandRunning = false;
        });
        ended.throwIfAborted();
        return code;
      }
      if (!ended.aborted) await once(ended, 'abort');
    }
    if (ended.reason instanceof Error) throw ended.reason;
    return command.length > 0 ? 128 + constants.signals[ended.reason as Signal] : exitCodes.ok;
  } finally {
    await unannounce();
    await service?.stop(GRACE_PERIOD);
    await stopDeleting();
    await events.stopped();
  }
}

/** Deletes temporary stores that killed servers have left. Returns a function that ends this soon. */
function startDeleting(context: Context): () => Promise<void> {
  const stopping = new AbortController();
  const deleting = deleteLeftStores(context, stopping.signal);
  return async () => {
    stopping.abort();
    await Promise.race([deleting, once(AbortSignal.timeout(DELETION_TIMEOUT), 'abort')]);
  };
}

/**
 * Provides the API key of this run. With a fixed key, `--ephemeral` or a command, only this server accepts the key.
 * Otherwise, it is a key of the store. Except with a command or `--no-profile`, `saveLocalProfile` saves the key. If a key
 * or the profile cannot be saved, for example because a container has no home directory, the server starts anyway.
 */
async function provideKey(run: Run, service: OpenedStore): Promise<ProvidedKey> {
  const { options, context, location, secrets, events } = run;
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
      events.warning(`${toCliError(error).message}; ${consequence}`);
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
      ? await saveLocalProfile(context, service, served.key).catch(
          orElse('so profile local was not saved; to start without it: --no-profile', () => undefined),
        )
      : undefined;
  return { ...served, otherService };
}

/**
 * Starts the service. After a signal, the start ends with its current step. A step that takes more than `GRACE_PERIOD`,
 * such as adding a large seed, is given up. The next start of the server removes the files that the step has left.
 *
 * @returns undefined if a signal or a failure of the store ended the start
 */
async function start(
  run: Run,
  prepare: (opened: OpenedStore) => Promise<void>,
): Promise<Service | undefined> {
  const { options, context, location, secrets, faults, events, ending } = run;
  const { host, seed } = options;
  const port = options.port ?? (options.command.length > 0 ? 0 : DEFAULT_PORT);
  const done = new AbortController();
  const givenUp = once(ending.signal, 'abort', { signal: done.signal }).then(() =>
    context.sleep(GRACE_PERIOD, done.signal),
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
    token: secrets.token,
    onPageUrl: events.pageUrl,
    secrets: secrets.key === undefined ? [] : [secrets.key],
    resettable: options.resettable || options.ephemeral,
    cors: options.cors ?? [],
    faults,
    seed: seed === undefined ? undefined : (signal) => readSeed(seed, context, signal),
    seedName: seed === true ? 'the sample data' : seed,
    prepare,
    signal: ending.signal,
    onWarning: events.warning,
    onFailure(error) {
      run.failure ??= error;
      ending.abort(error);
    },
    onError: events.internalError,
    onAccess: events.request,
  });
  try {
    return (await Promise.race([starting, givenUp])) ?? undefined;
  } catch (error) {
    if (ending.signal.aborted && error === ending.signal.reason) return undefined;
    if (!isAddressError(error)) throw error;
    const user = errnoOf(error) === 'EADDRINUSE' ? await describeUser(location) : undefined;
    throw cannotListen(`${host}:${port}`, error, user);
  } finally {
    done.abort();
  }
}

/** Whether the address of `--host` cannot be found, or cannot be used with the port. */
const isAddressError = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && /^(getaddrinfo|listen|bind)$/.test(String(error.syscall));

/** @param user says which process uses the store */
function cannotListen(address: string, error: unknown, user?: string): CliError {
  const isPort = /^(EADDRINUSE|EACCES)$/.test(errnoOf(error) ?? '');
  const otherAddress = isPort
    ? 'use another port with --port, or any free port with --port 0'
    : 'use an address of this machine, or omit --host to listen on 127.0.0.1';
  const hint =
    'use it, or stop it; for another server: --port 0 (any free port) with --ephemeral or --data <dir>';
  return new CliError(`cannot listen on ${address}: ${systemReason(error)}${user ? `; ${user}` : ''}`, {
    code: 'cannot_listen',
    hint: user ? hint : otherAddress,
    cause: error,
  });
}

/** Says which process uses the store in a directory, for a user who has started the server twice. */
async function describeUser({ place, isShared }: StoreLocation): Promise<string | undefined> {
  const directory = resolve(place);
  const owner = isShared ? undefined : await findLockOwner(directory);
  if (owner === undefined) return undefined;
  const { pid, url } = owner;
  const name = pid === undefined ? 'another process' : `process ${pid}`;
  return url === undefined
    ? `${name} uses the store in ${directory}`
    : `pets serve (${name}) already runs at ${url} with the store in ${directory}`;
}

/** The faults at the start. `--latency`, `--fail-rate` and `--fault-seed` replace fields in the file of `--faults`. */
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
  const text = requireUtf8(await readInput(createReadStream(path), path), path).toString();
  const document = parseJsonDocument(text, path);
  const { success, data, error } = z.safeParse(FaultSettings, document);
  if (!success) throw usageError(`${path}: ${describeFirstIssue(error, 'the document')}`);
  return data;
}

async function readSeed(seed: string | true, { clock, console }: CommandContext, signal?: AbortSignal) {
  if (seed === true) return sampleData(clock.now());
  const { readSeedFile } = await import('../rows/read-file.ts');
  return readSeedFile(seed, console, signal);
}
