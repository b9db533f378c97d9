import { randomBytes } from 'node:crypto';
import { MAX_QUOTA, type PlanName, planNames, type Quota } from '../../contract/plans.ts';
import { integer } from '../arguments.ts';
import type { Command, CommandGroup, Option, Runtime } from '../command.ts';
import { usageError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { dataDirectory } from '../paths.ts';

type Data = { data?: string };
type AddOptions = Data & { name: string; plan: PlanName; perMinute?: number; perDay?: number };

const dataOption: Option = { flags: '--data <directory>', description: "the store's directory" };
const directoryOf = ({ data }: Data, { context }: Runtime): string => data ?? dataDirectory(context);

const add: Command<AddOptions> = {
  name: 'add',
  summary: 'make a key, and show it once',
  examples: [
    'pets keys add till-1 --plan free',
    'pets keys add import --plan enterprise --per-minute 5000 --per-day 1000000',
  ],
  arguments: [{ name: '<name>', description: 'what to call it' }],
  options: [
    { flags: '--plan <plan>', description: 'its rate limits', choices: planNames, required: true },
    {
      flags: '--per-minute <number>',
      description: 'requests a minute (enterprise)',
      parse: integer(1, MAX_QUOTA),
    },
    { flags: '--per-day <number>', description: 'requests a day (enterprise)', parse: integer(1, MAX_QUOTA) },
    dataOption,
  ],
  async run(options, runtime) {
    const { createKey } = await import('../../store/keys.ts');
    const { name, plan, perMinute, perDay } = options;
    const created = await createKey(
      directoryOf(options, runtime),
      { name, plan, quota: readQuota(perMinute, perDay) },
      { clock: runtime.context.clock, random: randomBytes },
    );
    if (runtime.console.json) await runtime.console.writeJson(created);
    else {
      runtime.console.notice(`key ${name} (${plan}): it is shown only now`);
      await runtime.console.write(`${created.key}\n`);
    }
    return exitCodes.ok;
  },
};

const list: Command<Data> = {
  name: 'list',
  summary: 'show the keys, without the keys themselves',
  examples: ['pets keys list'],
  options: [dataOption],
  async run(options, runtime) {
    const { console } = runtime;
    const { listKeys } = await import('../../store/keys.ts');
    const keys = (await listKeys(directoryOf(options, runtime))).map(({ sha256: _, ...key }) => key);
    if (console.json) {
      await console.writeJson(keys);
      return exitCodes.ok;
    }
    if (keys.length === 0) {
      console.notice('the store has no keys: pets keys add <name> --plan <plan>');
      return exitCodes.ok;
    }
    const { renderRows } = await import('../output/table.ts');
    await console.write(
      renderRows(
        console,
        [{ head: 'NAME' }, { head: 'PLAN' }, { head: 'CREATED' }],
        keys.map(({ name, plan, created }) => [name, plan, created]),
      ),
    );
    return exitCodes.ok;
  },
};

const revoke: Command<Data & { name: string }> = {
  name: 'revoke',
  summary: 'take a key away; a running server refuses it within a second',
  examples: ['pets keys revoke till-1'],
  arguments: [{ name: '<name>', description: 'the key to revoke' }],
  options: [dataOption],
  async run(options, runtime) {
    const { revokeKey } = await import('../../store/keys.ts');
    await revokeKey(directoryOf(options, runtime), options.name);
    runtime.console.notice(`key ${options.name} is revoked`);
    return exitCodes.ok;
  },
};

function readQuota(perMinute: number | undefined, perDay: number | undefined): Quota | undefined {
  if (perMinute === undefined && perDay === undefined) return undefined;
  if (perMinute !== undefined && perDay !== undefined) return { perMinute, perDay };
  throw usageError(
    'a quota needs both: --per-minute and --per-day',
    'for example: pets keys add import --plan enterprise --per-minute 5000 --per-day 1000000',
  );
}

/** The keys of the local service (design D16). */
export const keys: CommandGroup = {
  name: 'keys',
  summary: "the local service's API keys",
  commands: [add, list, revoke],
};
