import type { Answered } from '../../server/app.ts';
import type { FaultOptions } from '../../server/faults/draw.ts';
import type { Service } from '../../server/service.ts';
import type { Runtime } from '../command.ts';
import { explain } from '../explain/explain.ts';
import { OutputError } from '../output/console.ts';
import { withVariables } from '../output/shell-words.ts';
import { visible } from '../output/visible.ts';
import type { DevKey } from './dev-key.ts';
import type { ServeOptions } from './options.ts';

/** How much of the log may wait for its reader. */
const MAX_LOG_BYTES = 2 ** 20;

type Listening = {
  directory: string;
  devKey: DevKey | undefined;
  /** Another store's service that profile `local` was left with. */
  other: string | undefined;
};

/** What a running server says: to a person on stdout, to a program as events, a line each. */
export function createAnnouncer(options: ServeOptions, { console, context }: Runtime) {
  const { quiet, command } = options;
  const { bold, cyan, dim } = console.colours;
  const withLog = options.log ?? (context.stderr.isTTY === true && command.length === 0 && !quiet);

  let hasListened = false;
  let unlogged = 0;

  /** stdout belongs to the command, where there is one. */
  const say = async (event: Record<string, unknown>, text: string) => {
    hasListened = true;
    try {
      if (command.length > 0) {
        if (!quiet) console.event(event, text);
      } else if (console.json) await console.writeJson(event);
      else if (!quiet) await console.write(`${text}\n`);
    } catch (error) {
      // A reader that took the first line and left does not stop the service.
      if (!(error instanceof OutputError) || error.code !== 'EPIPE') throw error;
    }
  };

  return {
    async listening(service: Service, { directory, devKey, other }: Listening) {
      const animals = await service.store.size();
      const { url, port, seeded, faults } = service;
      const key = devKey?.key;
      const event = {
        event: 'listening',
        url,
        port,
        pid: context.pid,
        store: service.store.id,
        directory,
        animals,
        seeded,
        ...(faults && { faults }),
      };
      const lines = [
        `${bold('pets serve')} ${cyan(url)}`,
        `  ${animals} animals in ${visible(directory)}${options.ephemeral ? ' (gone at the end)' : ''}`,
        devKey === undefined || key === undefined
          ? `  no key is known here: pets keys add <name> --plan pro --data ${visible(directory)}`
          : `  key ${key} (plan ${devKey.plan})`,
        ...(faults ? [`  ${describeFaults(faults)}`] : []),
        `  ${dim('try:')} ${nextStep(url, key, other)}`,
      ];
      await say({ ...event, ...(key && { key }), ...(devKey && { plan: devKey.plan }) }, lines.join('\n'));
      tellUnseeded(service);
      if (other) console.notice(`profile local belongs to the service at ${other}: it was left alone`);
    },
    async running(service: Service, key: string) {
      const { url, faults } = service;
      await say(
        { event: 'listening', url, key, ...(faults && { faults }) },
        `pets serve: ${url}, running ${visible(command.join(' '))}${faults ? `\n${describeFaults(faults)}` : ''}`,
      );
      tellUnseeded(service);
    },
    /** The last word of one that was heard: where it cannot be written, nobody can be told. */
    async stopped() {
      if (hasListened) await say({ event: 'stopped' }, 'pets serve: stopped').catch(() => {});
    },
    warning: (message: string) => console.notice(message),
    problem(error: unknown) {
      const { message } = explain(error, context.clock.now());
      console.event({ error: { code: 'internal_error', message } }, `error: ${visible(message)}`);
    },
    request: withLog
      ? ({ method, url, status, milliseconds }: Answered) => {
          // A log that nobody reads must not fill the memory.
          if (context.stderr.writableLength > MAX_LOG_BYTES) {
            unlogged++;
            return;
          }
          if (unlogged > 0) console.notice(`${unlogged} requests were not logged: the log was not read`);
          unlogged = 0;
          const request = { method, url, status, milliseconds };
          console.event({ request }, dim(`${method} ${visible(url)} ${status} ${milliseconds} ms`));
        }
      : undefined,
  };

  function tellUnseeded({ seeded }: Service): void {
    if (options.seed !== undefined && !seeded)
      console.notice('the store has animals already: it was not seeded');
  }

  function nextStep(url: string, key: string | undefined, other: string | undefined): string {
    if (options.profile && key !== undefined && other === undefined) return 'pets --profile local list';
    const variables = { PETS_BASE_URL: url, PETS_API_KEY: key ?? '<key>' };
    return withVariables(variables, 'pets list', context.platform);
  }
}

const rangeOf = ({ min, max }: { min: number; max: number }): string =>
  min === max ? String(min) : `${min} to ${max}`;

/** With the seed that brings the same faults again. */
function describeFaults({ latency, failRate, seed }: FaultOptions): string {
  const parts = [
    ...(latency ? [`answers held back ${rangeOf(latency)} ms`] : []),
    ...(failRate === undefined ? [] : [`${Math.round(failRate * 1_000) / 10} % of the requests fail`]),
  ];
  return `faults: ${parts.join(', ')} (--fault-seed ${seed})`;
}
