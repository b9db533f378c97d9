import { join } from 'node:path';
import type { Client } from '../client/client.ts';
import { InterruptedError } from '../client/errors.ts';
import type { Runtime } from './command.ts';
import { CallError } from './explain/call-error.ts';
import type { StatusLine } from './output/console.ts';
import { stateDirectory } from './paths.ts';
import { openProfileFiles } from './profiles/files.ts';
import { proxyFor } from './profiles/proxy.ts';
import { type Connection, placeOf, resolveConnection } from './profiles/resolve.ts';
import { createWaiting, tellAttempt, tellDeprecation } from './tell.ts';

/** Which server and key the options mean. @throws CliError */
export function connectionFor({ context, globals, console }: Runtime): Connection {
  const files = openProfileFiles(context);
  const { connection, notices } = resolveConnection({
    flags: globals,
    env: context.env,
    // A damaged settings file hinders nobody who names the profile.
    defaultProfile: globals.profile === undefined ? files.readSettings().defaultProfile : undefined,
    readProfile: files.read,
  });
  for (const notice of notices) console.notice(notice);
  return connection;
}

/** Before something is written, a person sees where to: a wrong environment is found out in time. */
export function tellPlace({ console, context }: Runtime, connection: Connection, what: string): void {
  if (context.stderr.isTTY === true) console.notice(`${what} ${placeOf(connection)}`);
}

export type ClientSettings = {
  /** Where the countdown of a wait is shown, instead of a line of its own; undefined where there is none. */
  showWait?: (line: StatusLine | undefined) => void;
  /** Sends each request once. */
  once?: boolean;
};

/** Runs a piece of work with a client, interruptible by Ctrl-C and the signals to end, and closes the connection behind it. */
export async function withClient<Result>(
  runtime: Runtime,
  connection: Connection,
  work: (client: Client) => Promise<Result>,
  { showWait = runtime.console.status, once = false }: ClientSettings = {},
): Promise<Result> {
  const { context, globals } = runtime;
  const { clock, random } = context;
  runtime.console.hide(connection.key);
  const proxy = proxyFor(connection.baseUrl, context.env);
  const { openClient } = await import('../client/open.ts');
  // Behind the import: with another flag V8 would compile anew what Node has compiled of its own modules.
  await leaveParserPlain();
  const interrupt = new AbortController();
  const unsubscribe = context.onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], () =>
    interrupt.abort(new InterruptedError()),
  );
  const { client, close } = openClient({
    baseUrl: connection.baseUrl,
    key: connection.key,
    proxy,
    marksDirectory: join(stateDirectory(context), 'services'),
    clock,
    random,
    ...createWaiting(runtime, showWait),
    signal: interrupt.signal,
    timeoutMilliseconds: globals.timeout * 1_000,
    maxWaitMilliseconds: globals.retry && !once ? globals.maxWait * 1_000 : undefined,
    onDeprecated: (deprecated) => tellDeprecation(runtime, deprecated),
    onAttempted: globals.debug ? (attempted) => tellAttempt(runtime, attempted) : undefined,
  });
  try {
    return await work(client);
  } catch (error) {
    throw new CallError(error, connection, { proxy: proxy && new URL(proxy.address).host });
  } finally {
    unsubscribe();
    await close();
  }
}

/**
 * Undici's parser is WebAssembly, which the V8 of Node 20 optimises at once: a process of one request would wait for the
 * end of that. Later ones optimise what has run often.
 */
async function leaveParserPlain(): Promise<void> {
  if (!process.versions.node.startsWith('20.')) return;
  const { setFlagsFromString } = await import('node:v8');
  setFlagsFromString('--liftoff-only');
}
