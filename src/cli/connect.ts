import type { Attempted, Client, Deprecated, Wait } from '../client/client.ts';
import type { OperationName } from '../contract/operations.ts';
import { CallError } from './call-error.ts';
import type { Runtime } from './command.ts';
import { visible } from './output/visible.ts';
import { openProfileFiles } from './profiles/files.ts';
import { withoutKey } from './profiles/profile.ts';
import { type Connection, resolveConnection } from './profiles/resolve.ts';

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

/** Runs a piece of work with a client, interruptible by Ctrl-C, and closes the connection behind it. */
export async function withClient<Result>(
  runtime: Runtime,
  connection: Connection,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const { context, globals } = runtime;
  const [{ createClient }, { createTransport }, { InterruptedError }] = await Promise.all([
    import('../client/client.ts'),
    import('../client/transport.ts'),
    import('../client/errors.ts'),
  ]);
  const interrupt = new AbortController();
  const unsubscribe = context.onSignal(['SIGINT'], () =>
    interrupt.abort(new InterruptedError('interrupted')),
  );
  const transport = createTransport();
  try {
    return await work(
      createClient({
        baseUrl: connection.baseUrl,
        key: connection.key,
        transport,
        clock: context.clock,
        sleep: context.sleep,
        random: context.random,
        signal: interrupt.signal,
        timeoutMilliseconds: globals.timeout * 1_000,
        maxWaitMilliseconds: globals.retry ? globals.maxWait * 1_000 : undefined,
        onWait: (wait) => tellWait(runtime, wait),
        onDeprecated: (deprecated) => tellDeprecation(runtime, deprecated),
        onAttempted: globals.debug ? (attempted) => tellAttempt(runtime, connection, attempted) : undefined,
      }),
    );
  } catch (error) {
    throw new CallError(error, connection);
  } finally {
    unsubscribe();
    await transport.close();
  }
}

const DAY = 86_400_000;

/** The command that calls an operation, and what to type instead of it. */
const INSTEAD: Partial<Record<OperationName, { command: string; instead: string }>> = {
  getPet: { command: 'pets get', instead: ': use pets list --status <status>' },
};

function tellDeprecation({ console, context }: Runtime, { operation, sunset }: Deprecated): void {
  const { command, instead } = INSTEAD[operation] ?? { command: 'this operation', instead: '' };
  const day = sunset?.toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: 'UTC' });
  const days = sunset && Math.ceil((sunset.getTime() - context.clock.now()) / DAY);
  if (days === undefined || days > 0) {
    const when = day === undefined ? '' : ` on ${day} (in ${days} days)`;
    console.notice(`${command} goes away${when}${instead}`);
  } else console.notice(`${command} was to go away on ${day}${instead}`);
}

/** Every wait of a second and more is told: why, how long, until when. */
function tellWait({ console }: Runtime, { reason, milliseconds, until }: Wait): void {
  if (milliseconds < 1_000) return;
  const seconds = Math.ceil(milliseconds / 1_000);
  const time = new Date(until).toISOString();
  console.event(
    { wait: { reason, seconds, until: time } },
    console.errorColours.dim(`waiting ${seconds} s (${reason}), until ${time.slice(11, 19)} UTC`),
  );
}

/** One attempt, with the reply's headers; the key is masked wherever the service may have put it. */
function tellAttempt({ console }: Runtime, { key }: Connection, attempted: Attempted): void {
  const { method, url, milliseconds, outcome } = attempted;
  const mask = (text: unknown) => withoutKey(String(text), key);
  const told =
    'failure' in outcome
      ? { failure: mask(outcome.failure) }
      : {
          status: outcome.status,
          headers: Object.fromEntries(
            Object.entries(outcome.headers).map(([name, value]) => [mask(name), mask(value)]),
          ),
        };
  const lines =
    'failure' in told
      ? [`failed: ${told.failure}`]
      : [`${told.status}`, ...Object.entries(told.headers).map(([name, value]) => `  ${name}: ${value}`)];
  console.event(
    { debug: { method, url: mask(url), milliseconds, ...told } },
    console.errorColours.dim(
      [`${method} ${mask(url)} (${milliseconds} ms)`, ...lines].map(visible).join('\n'),
    ),
  );
}
