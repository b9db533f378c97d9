import { once } from 'node:events';
import { accessSync, createReadStream, constants as fsConstants, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import spawn from 'cross-spawn';
import * as z from 'zod/mini';
import { describeIssues, INT64_MAX, int64 } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import { type FaultOptions, FaultRules } from '../../server/faults.ts';
import { sampleData } from '../../server/mocks.ts';
import { type Service, startService } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import type { Seed } from '../../store/store.ts';
import { findLockOwner } from '../../system/directory-lock.ts';
import { errnoOf, systemReason } from '../../system/file-system.ts';
import type { Context, Signal } from '../core/context.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { parseJsonDocument, readInput, readUtf8File } from '../core/input.ts';
import type { Console } from '../output/console.ts';
import { DEFAULT_PORT } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { forgetLocalKey, type ProvidedKey, provideKey, readSecrets } from './api-key.ts';
import { deleteLeftStores, findStoreLocation, makeTemporaryDirectory, type ServeOptions } from './options.ts';
import { createEventPrinter } from './server-events.ts';

/** How long running requests may take to finish when the server stops, in milliseconds. */
export const GRACE_PERIOD_MS = 3_500;

/** How long the output may take to be written at exit, in milliseconds. */
export const FLUSH_TIMEOUT_MS = 1_000;

/** Runs the server until a signal, a store failure, or the exit of the command given after `--`. Returns the exit code. */
export async function runServer(options: ServeOptions, context: CommandContext): Promise<number> {
  const { command, host, seed } = options;
  if (command.length === 0) unblockTerminals(context);
  const port = options.port ?? (command.length > 0 ? 0 : DEFAULT_PORT);
  // Read the secrets and the faults before anything is created. `startService` reads the seed later.
  const secrets = await readSecrets(options.keyFile, context);
  for (const secret of [secrets.key, secrets.token]) if (secret) context.console.redact(secret);
  const faults = await readFaults(options, context);
  // Aborted with the first reason to stop: the name of a signal, or the error of a store that can no longer be read.
  const stopping = new AbortController();
  const stop = stopping.signal;
  let failure: Error | undefined;
  let isCommandRunning = false;
  let directory: string | undefined;
  const exitNow = (code: number) => {
    // The removal must be synchronous, because the process exits immediately afterwards.
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
    context.exitNow(code);
  };
  // The first signal stops the server, and the next exits immediately. While the command runs, `runCommand` handles them.
  const stopHandling = context.onSignal(STOP_SIGNALS, (signal) => {
    if (isCommandRunning) return;
    if (typeof stop.reason === 'string') exitNow(128 + constants.signals[signal]);
    stopping.abort(signal);
  });

  /** Starts the service, reports it, runs the command or waits for the reason to stop, and stops it. @returns the exit code */
  async function serve(location: StoreLocation): Promise<number> {
    const events = createEventPrinter(options, context, location, secrets);
    let service: Service | undefined;
    let provided: ProvidedKey = {};
    try {
      service = await startService({
        location,
        host,
        port,
        clock: context.clock,
        sleep: context.sleep,
        signal: stop,
        bans: { after: options.banAfter, milliseconds: options.banFor * 1_000 },
        publicUrl: options.publicUrl,
        trustedProxies: options.trustProxy,
        allowHosts: options.allowHost ?? [],
        cors: options.cors ?? [],
        page: options.page,
        token: secrets.token,
        secrets: secrets.key === undefined ? [] : [secrets.key],
        resettable: options.resettable || options.ephemeral,
        faults,
        seed: seed === undefined ? undefined : (signal) => readSeed(seed, context, signal),
        seedName: seed === true ? 'the sample data' : seed,
        // The key and profile `local` must work as soon as the address is printed.
        async prepare(opened) {
          provided = await provideKey(options, context, location, secrets.key, opened, events.warning);
        },
        onFailure(error) {
          failure ??= error;
          stopping.abort(error);
        },
        onPageUrl: events.pageUrl,
        onWarning: events.warning,
        onError: events.internalError,
        onAccess: events.request,
      });
      // The result is not awaited: a start does not depend on what killed servers have left.
      void deleteLeftStores(context);
      await events.listening(service, provided);
      if (command.length === 0) {
        if (!stop.aborted) await once(stop, 'abort');
        return exitCodes.ok;
      }
      const key = provided.served?.key ?? '';
      const own = { PETS_BASE_URL: service.url, PETS_API_KEY: key, PETS_SERVE_TOKEN: service.token };
      // Otherwise, programs would send requests for this machine to the proxy in HTTP_PROXY.
      const others = context.env['no_proxy'] ?? context.env['NO_PROXY'] ?? '';
      const NO_PROXY = others === '*' ? others : `${others},127.0.0.1,localhost`;
      isCommandRunning = true;
      return await runCommand(context, command, { ...own, NO_PROXY, no_proxy: NO_PROXY }, stop);
    } catch (error) {
      if (isFailed(error, ['getaddrinfo', 'listen', 'bind']))
        throw await cannotListenError(`${host}:${port}`, error, location);
      // Node throws some errors of a start, such as ETXTBSY. `runCommand` handles those that Node emits.
      if (isFailed(error, ['spawn'])) throw startError(command[0] ?? '', error);
      if (error instanceof Error || error !== stop.reason) throw error;
      return command.length > 0 ? 128 + constants.signals[error as Signal] : exitCodes.ok;
    } finally {
      isCommandRunning = false;
      unblockTerminals(context);
      if (service) {
        if (options.ephemeral && provided.isProfileSaved)
          await forgetLocalKey(context, provided.served?.key).catch(events.internalError);
        await service.stop(GRACE_PERIOD_MS);
        events.stopped();
      }
    }
  }

  try {
    if (options.ephemeral) directory = await makeTemporaryDirectory(context);
    const code = await serve(await findStoreLocation(directory ?? options.data, context));
    // The store can also fail after a signal has stopped the server. The failure must be reported then, too.
    if (failure) throw failure;
    await flushOutput({ ...context, exitNow }, code);
    return code;
  } finally {
    if (directory !== undefined) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    // Handle signals until an error is printed: otherwise, a signal would end the process before that.
    setImmediate(stopHandling);
  }
}

/** Waits a second for buffered output. Exits if some is left, because unread output keeps the process alive. */
async function flushOutput({ stdout, stderr, sleep, exitNow }: Context, code: number): Promise<void> {
  const isWritten = () => stdout.writableLength + stderr.writableLength === 0;
  if (isWritten()) return;
  await sleep(FLUSH_TIMEOUT_MS, new AbortController().signal);
  if (!isWritten()) exitNow(code);
}

/** Lets writes to a paused terminal (Ctrl-S) wait in memory. With a command, its own writes could then fail with EAGAIN. */
function unblockTerminals({ stdout, stderr }: Context): void {
  try {
    // If Node cannot open a terminal itself, as after su, it shares the open one with other programs.
    for (const fd of [1, 2]) accessSync(`/dev/fd/${fd}`, fsConstants.R_OK | fsConstants.W_OK);
    for (const stream of [stdout, stderr]) if (stream.isTTY) stream._handle?.setBlocking?.(false);
  } catch {}
}

/** Whether an error is that of one of these system calls. */
const isFailed = (error: unknown, calls: readonly string[]): error is NodeJS.ErrnoException =>
  error instanceof Error && 'syscall' in error && calls.includes(String(error.syscall));

/** The error for an address that cannot be used. If the port is in use, the error names a server of the same store. */
export async function cannotListenError(
  address: string,
  error: unknown,
  location: Pick<StoreLocation, 'place' | 'isShared'>,
): Promise<CliError> {
  const errno = errnoOf(error) ?? '';
  const directory = resolve(location.place);
  const owner = errno === 'EADDRINUSE' && !location.isShared ? await findLockOwner(directory) : undefined;
  const running = owner?.url
    ? `; pets serve (process ${owner.pid}) already runs at ${owner.url} with the store in ${directory}`
    : '';
  const hints: Record<string, string> = {
    EADDRINUSE: running
      ? 'use it, or stop it; for another server: --port 0 (any free port) with --ephemeral or --data <dir>'
      : 'stop the program that uses the port, or listen on any free port: --port 0',
    EACCES: 'use a port above 1023, or any free port: --port 0',
  };
  const hint = hints[errno] ?? 'use an address of this machine, or omit --host to listen on 127.0.0.1';
  const message = `cannot listen on ${address}: ${systemReason(error)}${running}`;
  return new CliError(message, { code: 'cannot_listen', hint, cause: error });
}

/** Reads the faults that the server has at its start; undefined without any. `faultSeed` determines the random ones. @throws CliError */
async function readFaults(
  { latency, failRate, faultSeed, faults: path }: ServeOptions,
  { random }: Pick<Context, 'random'>,
): Promise<FaultOptions | undefined> {
  if (latency === undefined && failRate === undefined && path === undefined) return undefined;
  const seed = faultSeed ?? Math.floor(random() * 2 ** 32);
  if (path === undefined) return { latency, failRate, seed };
  // The file has the form of a body of `PUT /faults`.
  const text = (await readUtf8File(path)).toString();
  const { success, data, error } = z.safeParse(FaultRules, parseJsonDocument(text, path));
  if (!success)
    throw usageError(`${path}: ${describeIssues(error, 'the document')}`, 'see: pets help serve faults');
  return { latency, failRate, seed, rules: data.rules };
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
  const bytes = await readInput(createReadStream(path), path, signal);
  const { checkRows } = await import('../rows/read-file.ts');
  const { rows, orders } = checkRows(bytes, SeedPet, { name: path, console, refused: 'nothing was added' });
  await nextTurn();
  signal?.throwIfAborted();
  let last = rows.reduce((max, { pet }) => (pet.id !== undefined && pet.id > max ? pet.id : max), 0n);
  // Changes the animals in place, because a million copies take 100 MB.
  const pets = rows
    .map(({ pet }) => Object.assign(pet, { status: pet.status ?? 'available', id: pet.id ?? ++last }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  return { pets, orders };
}

/**
 * The signals that stop the server. If they were not handled, they would end the process and leave its temporary store
 * and its command. nodemon sends SIGUSR2; a terminal sends SIGQUIT (Ctrl-\), on Windows SIGBREAK. Node itself uses SIGUSR1.
 */
export const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2', 'SIGBREAK'] as const;

/** If `runCommand` is aborted, the command gets SIGTERM, and SIGKILL this many milliseconds later. */
const KILL_DELAY_MS = 5_000;

/**
 * Runs a command with this process's streams and waits for its exit.
 * - SIGTERM and SIGHUP are forwarded; SIGQUIT, SIGUSR2 and SIGBREAK are forwarded as SIGTERM. The second of these signals
 *   kills the command. SIGINT is forwarded each time, except if stdin is a terminal.
 * - If `abort` is aborted, the command gets SIGTERM, and SIGKILL after 5 s.
 *
 * Many programs take a second signal as the wish to end at once, so each signal must reach the command once. If stdin is a
 * terminal, the command stays in this process group, because it could not read the terminal otherwise. Then Ctrl-C reaches
 * both, so SIGINT is not forwarded. Otherwise, except on Windows, the command gets a process group of its own, so a signal to
 * the group of this process reaches the command and its children only when it is forwarded.
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
  const hasOwnGroup = !context.stdin.isTTY && context.platform !== 'win32';
  const child = spawn(file, args, {
    stdio: 'inherit',
    env: { ...context.env, ...variables },
    detached: hasOwnGroup,
  });
  const send = (signal: NodeJS.Signals) => {
    try {
      if (hasOwnGroup && child.pid !== undefined) process.kill(-child.pid, signal);
      else child.kill(signal);
    } catch {
      // The command and all its children have ended.
    }
  };
  const ended = new AbortController();
  const kill = () => send('SIGKILL');
  let isTerminating = false;
  const terminate = (signal: NodeJS.Signals) => {
    if (isTerminating) return kill();
    isTerminating = true;
    send(signal);
  };
  const onAbort = () => {
    if (!isTerminating) terminate('SIGTERM');
    context.sleep(KILL_DELAY_MS, ended.signal).then(kill, () => {});
  };
  abort.addEventListener('abort', onAbort, { signal: ended.signal });
  const unsubscribe = context.onSignal(STOP_SIGNALS, (signal) => {
    if (signal !== 'SIGINT') terminate(signal === 'SIGHUP' ? signal : 'SIGTERM');
    else if (!context.stdin.isTTY) send(signal);
  });
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (error: NodeJS.ErrnoException) => reject(startError(file, error)));
      child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGTERM']));
    });
  } finally {
    ended.abort();
    unsubscribe();
  }
}

function startError(file: string, cause: NodeJS.ErrnoException): CliError {
  const isMissing = cause.code === 'ENOENT';
  return new CliError(`cannot run ${file}: ${isMissing ? 'command not found' : systemReason(cause)}`, {
    code: isMissing ? 'command_not_found' : 'command_failed',
    hint: isMissing
      ? 'check its name and, in a script, the first line; a command line for the shell needs sh -c (on Windows: cmd /c) before it'
      : 'check that it is an executable program, and that the limit of processes is not reached',
    cause,
  });
}
