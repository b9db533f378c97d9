import { InterruptedError } from '../../client/errors.ts';
import { MAX_QUOTA, type PlanName, planNames } from '../../contract/plans.ts';
import type { KeyManager } from '../../store/backend.ts';
import type { CreatedKey } from '../../store/keys/keys.ts';
import { CliError, usageError } from '../errors/errors.ts';
import { isClosedPipe } from '../output/console.ts';
import { shellQuote } from '../output/shell-words.ts';
import { writeProfile } from '../profiles/files.ts';
import { dataOption, openLocation } from '../profiles/location.ts';
import type { Command, CommandContext, CommandGroup } from '../program/command.ts';
import { integer } from '../program/parsers.ts';

type Data = { data?: string };
type AddOptions = Data & {
  name: string;
  plan?: PlanName;
  perMinute?: number;
  perDay?: number;
  save?: boolean;
};

/** Runs a task with the keys of the store that `--data` or PETS_DATA names. */
async function manageKeys<Result>(
  { data }: Data,
  context: CommandContext,
  task: (keys: KeyManager) => Promise<Result>,
): Promise<Result> {
  return (await openLocation(data, context)).manageKeys(task);
}

const add: Command<AddOptions> = {
  name: 'add',
  summary: 'create an API key and print it once',
  examples: [
    'pets keys add till-1 --plan free',
    'pets keys add import --plan enterprise --per-minute 5000 --per-day 1000000',
    'pets keys add dev --save',
  ],
  arguments: [{ name: '<name>', description: 'name for the key' }],
  options: [
    {
      flags: '--plan <plan>',
      description: 'plan, which sets the rate limits; required, unless --save is given (then pro by default)',
      choices: planNames,
    },
    {
      flags: '--per-minute <number>',
      description: 'requests per minute (enterprise only)',
      parse: integer(1, MAX_QUOTA),
    },
    {
      flags: '--per-day <number>',
      description: 'requests per day (enterprise only)',
      parse: integer(1, MAX_QUOTA),
    },
    { flags: '--save', description: 'also save the key to profile local' },
    dataOption,
  ],
  prints: ['text', 'json'],
  printsKey: true,
  check({ plan, save, perMinute, perDay }) {
    if (plan === undefined && !save)
      throw usageError("missing option '--plan <plan>'", 'for example: pets keys add till-1 --plan free');
    if ((perMinute === undefined) === (perDay === undefined)) return;
    throw usageError(
      '--per-minute and --per-day must be used together',
      'for example: pets keys add import --plan enterprise --per-minute 5000 --per-day 1000000',
    );
  },
  async run(options, context) {
    const { readLocalBaseUrl } = await import('../serve/local-profile.ts');
    const { console } = context;
    const { name, plan = 'pro', perMinute, perDay, save = false } = options;
    const baseUrl = save ? readLocalBaseUrl(context) : undefined;
    const quota = perMinute && perDay ? { perMinute, perDay } : undefined;
    const created = await manageKeys(options, context, (keys) => keys.create({ name, plan, quota }));
    let isSaved = false;
    try {
      if (baseUrl !== undefined) {
        await writeProfile(context, 'local', { baseUrl, key: created.key });
        isSaved = true;
      }
    } finally {
      // If the key cannot be saved, it must still be printed, because it cannot be recovered.
      await printKey(created, options, context, isSaved);
    }
    if (baseUrl !== undefined)
      console.notice(`saved the key for ${baseUrl} to profile local. Next: pets --profile local list`);
  },
};

/** Prints a new key. @throws CliError if the key could not be written, because it exists nevertheless */
async function printKey(
  created: CreatedKey,
  { data }: Data,
  { console, platform }: CommandContext,
  isSaved: boolean,
): Promise<void> {
  const { name, plan, key } = created;
  try {
    if (console.json) await console.writeJson(created);
    else {
      console.notice(`created key ${name} (${plan}); copy it now, it won't be shown again`);
      await console.write(`${key}\n`);
    }
    await console.finish();
  } catch (error) {
    const isClosed = isClosedPipe(error);
    if (isSaved && isClosed) throw error;
    const reason = isClosed ? 'the pipe was closed' : (error as Error).message;
    const where = data === undefined ? [] : ['--data', data];
    const revocation = shellQuote(['pets', 'keys', 'revoke', name, ...where], platform);
    throw new CliError(`key ${name} was created, but it could not be written: ${reason}`, {
      code: error instanceof InterruptedError ? 'interrupted' : 'output_error',
      hint: isSaved
        ? 'the key is saved to profile local'
        : `the key cannot be shown again; revoke it: ${revocation}`,
      cause: error,
    });
  }
}

const list: Command<Data> = {
  name: 'list',
  summary: 'list the keys, without their secret values',
  examples: ['pets keys list'],
  options: [dataOption],
  prints: ['rows', 'json'],
  async run(options, context) {
    const { console } = context;
    const stored = await manageKeys(options, context, (manager) => manager.list());
    const keys = stored.map(({ sha256: _, ...key }) => key);
    if (console.json) {
      await console.writeJson(keys);
      return;
    }
    if (keys.length === 0) {
      console.notice('the store has no keys. Create one: pets keys add <name> --plan <plan>');
      return;
    }
    const { renderRows } = await import('../output/table.ts');
    const columns = [{ head: 'NAME' }, { head: 'PLAN' }, { head: 'CREATED' }];
    const rows = keys.map(({ name, plan, created }) => [name, plan, created]);
    await console.write(renderRows(console, columns, rows));
  },
};

const revoke: Command<Data & { name: string }> = {
  name: 'revoke',
  summary: 'revoke a key; a running server rejects it within a second',
  examples: ['pets keys revoke till-1'],
  arguments: [{ name: '<name>', description: 'name of the key' }],
  options: [dataOption],
  async run(options, context) {
    await manageKeys(options, context, (keys) => keys.revoke(options.name));
    context.console.notice(`revoked key ${options.name}`);
  },
};

/** Manages the API keys of the local service (docs/service.md, D16). */
export const keys: CommandGroup = {
  name: 'keys',
  summary: "manage the local service's API keys",
  commands: [add, list, revoke],
};
