import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FaultOptions } from '../../server/faults/draw.ts';
import { sampleShop } from '../../server/sample.ts';
import { type Service, startService } from '../../server/service.ts';
import { StoreError } from '../../store/errors.ts';
import type { Runtime } from '../command.ts';
import type { Context, Signal } from '../context.ts';
import { DEFAULT_PORT } from '../default-port.ts';
import { CliError, systemReason } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { dataDirectory } from '../paths.ts';
import { createAnnouncer } from './announce.ts';
import { type DevKey, ensureDevKey } from './dev-key.ts';
import { saveLocalProfile } from './local-profile.ts';
import type { ServeOptions } from './options.ts';
import { runCommand } from './run-command.ts';
import { createStopper } from './stopper.ts';

/** What a stopping server waits for running requests, in milliseconds; within 10 s it is gone. */
const GRACE = 8_000;
const LOG_PATIENCE = 1_000;

/** Serves until a signal, a failure of the store, or the end of the command that it was started for. */
export async function runServer(options: ServeOptions, runtime: Runtime): Promise<number> {
  const code = await serveSomewhere(options, runtime);
  await leaveLog(runtime.context, code);
  return code;
}

async function serveSomewhere(options: ServeOptions, runtime: Runtime): Promise<number> {
  const directory = options.ephemeral
    ? await mkdtemp(join(tmpdir(), 'pets-'))
    : (options.data ?? dataDirectory(runtime.context));
  try {
    return await serveDirectory(directory, options, runtime);
  } finally {
    if (options.ephemeral) await rm(directory, { recursive: true, force: true });
  }
}

/** What nobody reads keeps a process alive for ever: after a second it ends all the same. */
async function leaveLog({ stderr, sleep, exitNow }: Context, code: number): Promise<void> {
  if (stderr.writableLength === 0) return;
  await sleep(LOG_PATIENCE, new AbortController().signal);
  if (stderr.writableLength > 0) exitNow(code);
}

async function serveDirectory(directory: string, options: ServeOptions, runtime: Runtime): Promise<number> {
  const { context } = runtime;
  const hasCommand = options.command.length > 0;
  const announcer = createAnnouncer(options, runtime);
  const stopper = createStopper(context, () => {
    // Synchronously: the process ends with the next line.
    if (options.ephemeral) rmSync(directory, { recursive: true, force: true });
  });
  // Before anything is open: a signal while it starts stops it too.
  stopper.listen();
  const hooks = {
    onWarning: announcer.warning,
    onFailure: stopper.fail,
    onError: announcer.problem,
    onAnswered: announcer.request,
  };
  const service = await start(directory, options, hooks, runtime).catch((error) => {
    stopper.unlisten();
    throw error;
  });
  try {
    if (hasCommand) return await serveCommand(service, options, runtime, announcer, stopper);
    const devKey = await devKeyOf(service, directory, options, runtime);
    const other =
      options.profile && devKey?.key ? await saveLocalProfile(context, service, devKey.key) : undefined;
    await announcer.listening(service, { directory, devKey, other });
    await stopper.stopped;
    return exitCodes.ok;
  } finally {
    await service.stop(GRACE);
    stopper.unlisten();
    await announcer.stopped();
  }
}

type Hooks = Pick<Parameters<typeof startService>[0], 'onWarning' | 'onFailure' | 'onError' | 'onAnswered'>;

async function start(
  directory: string,
  options: ServeOptions,
  hooks: Hooks,
  { context }: Runtime,
): Promise<Service> {
  const { host, seed } = options;
  const port = options.port ?? (options.command.length > 0 ? 0 : DEFAULT_PORT);
  try {
    return await startService({
      directory,
      host,
      port,
      clock: context.clock,
      sleep: context.sleep,
      bans: { after: options.banAfter, milliseconds: options.banFor * 1_000 },
      limitFailedKeys: options.limitFailedKeys ?? false,
      allowHosts: options.allowHost ?? [],
      cors: options.cors ?? [],
      faults: faultsOf(options, context),
      seed: seed === undefined ? undefined : () => readSeed(seed),
      ...hooks,
    });
  } catch (error) {
    if (error instanceof StoreError || error instanceof CliError) throw error;
    throw new CliError(`cannot listen on ${host}:${port}: ${systemReason(error)}`, {
      code: 'cannot_listen',
      hint: 'choose another port, or take a free one: pets serve --port 0',
      cause: error,
    });
  }
}

/** A seed that was not given is drawn, and told: whatever happens can be had again. */
function faultsOf(
  { latency, failRate, faultSeed }: ServeOptions,
  context: Context,
): FaultOptions | undefined {
  if (latency === undefined && failRate === undefined) return undefined;
  return { latency, failRate, seed: faultSeed ?? Math.floor(context.random() * 2 ** 32) };
}

async function readSeed(seed: string | true) {
  if (seed === true) return sampleShop();
  const { readSeedFile } = await import('../input/seed-file.ts');
  return readSeedFile(seed);
}

async function devKeyOf(
  service: Service,
  directory: string,
  options: ServeOptions,
  { context }: Runtime,
): Promise<DevKey | undefined> {
  if (!options.ephemeral) {
    return ensureDevKey(context, { id: service.store.id, directory }, options.plan);
  }
  return { plan: options.plan, key: service.keys.addTemporary(options.plan) };
}

async function serveCommand(
  service: Service,
  options: ServeOptions,
  { context }: Runtime,
  announcer: ReturnType<typeof createAnnouncer>,
  stopper: ReturnType<typeof createStopper>,
): Promise<number> {
  const key = service.keys.addTemporary(options.plan);
  await announcer.running(service, key);
  const variables = { PETS_BASE_URL: service.url, PETS_API_KEY: key };
  const { asked, failure } = stopper;
  if (asked.aborted) return 128 + constants.signals[asked.reason as Signal];
  // While the command runs, signals are its own.
  stopper.unlisten();
  try {
    const code = await runCommand(context, options.command, variables, failure);
    failure.throwIfAborted();
    return code;
  } finally {
    stopper.listen();
  }
}
