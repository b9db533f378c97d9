import { MAX_QUOTA, type PlanName, planNames, plans, type Quota } from '../../contract/api.ts';
import type { StoreLocation } from '../../store/backend.ts';
import type { CreatedKey, StoredKey } from '../../store/keys.ts';
import { CliError, toCliError, usageError } from '../core/errors.ts';
import { integerParser } from '../core/values.ts';
import { type Console, isClosedPipe } from '../output/console.ts';
import { type Column, printRows, printText } from '../output/printer.ts';
import {
  argument,
  type Command,
  type CommandContext,
  type CommandGroup,
  option,
} from '../program/command.ts';
import {
  addDataOption,
  DEFAULT_PLAN,
  dataOption,
  findStoreLocation,
  replaceHints,
} from '../serve/options.ts';

type Data = { data?: string };
type AddOptions = Data & {
  name: string;
  plan: PlanName;
  perMinute?: number;
  perDay?: number;
};

/** Finds the store. `manage` runs a task with its keys. `command` adds `--data` to a command line, unless it is the default store. */
async function findKeys({ data }: Data, context: CommandContext) {
  const location = await findStoreLocation(data, context);
  const command = (words: string) => addDataOption(words, data, location, context);
  const manage: StoreLocation['manageKeys'] = (task) =>
    location.manageKeys(task).catch(replaceHints({ missing: `create one: ${command('pets serve')}` }));
  return { command, manage };
}

const add: Command<AddOptions> = {
  name: 'add',
  summary: 'create an API key in an existing store of pets serve and print it once',
  examples: [
    'pets keys add till-1 --plan free',
    'pets keys add import --plan enterprise --per-minute 5000 --per-day 1000000',
    'pets keys add laptop | pets login --profile local  # while pets serve runs',
  ],
  notes: `Every key may list and add animals. Requests per minute and per day: ${planNames
    .filter((plan) => plan !== 'enterprise')
    .map((plan) => `${plan} ${plans[plan].perMinute} and ${plans[plan].perDay}`)
    .join(', ')}; enterprise as set by options, otherwise practically unlimited.`,
  arguments: [argument('<name>', 'name for the key (a-z, 0-9, dot, dash, underscore)')],
  options: [
    option('--plan <plan>', `${planNames.join(', ')}: sets the rate limits (see below)`, planNames).default(
      DEFAULT_PLAN,
    ),
    option('--per-minute <number>', 'requests per minute (enterprise only)', integerParser(1, MAX_QUOTA)),
    option('--per-day <number>', 'requests per day (enterprise only)', integerParser(1, MAX_QUOTA)),
    dataOption,
  ],
  prints: 'text',
  printsKey: true,
  async run(options, context) {
    const { name, plan, perMinute, perDay } = options;
    const hasQuota = perMinute !== undefined || perDay !== undefined;
    if (hasQuota && plan !== 'enterprise')
      throw usageError('--per-minute and --per-day need --plan enterprise', 'see: pets help keys add');
    const quota = hasQuota
      ? { ...plans[plan], ...(perMinute && { perMinute }), ...(perDay && { perDay }) }
      : undefined;
    const { command, manage } = await findKeys(options, context);
    const revocation = command(`pets keys revoke ${name}`);
    const refuse = replaceHints({ key_exists: `choose another name, or revoke it first: ${revocation}` });
    const created = await manage((keys) => keys.create({ name, plan, quota })).catch(refuse);
    await printKey(created, revocation, context);
  },
};

/** Prints a new key. `revocation` is the command that revokes it. @throws CliError, which says that the key exists */
async function printKey(created: CreatedKey, revocation: string, { console }: CommandContext): Promise<void> {
  const { name, plan, key } = created;
  try {
    if (!console.json)
      console.notice(`created key ${name} (${plan}); keep it, because pets cannot show it again`);
    await printText(console, created, `${key}\n`);
    await console.finish();
  } catch (error) {
    const { code, exitCode, message } = toCliError(error);
    const reason = isClosedPipe(error) ? 'the pipe was closed' : message;
    throw new CliError(`key ${name} was created, but not printed: ${reason}`, {
      code,
      exitCode,
      hint: `the key cannot be shown again; revoke it: ${revocation}`,
      cause: error,
    });
  }
}

type ListedKey = Pick<StoredKey, 'name' | 'plan' | 'created'> & Quota & { bannedUntil: string | null };

const list: Command<Data> = {
  name: 'list',
  summary: 'list the keys, without their secret values',
  examples: ['pets keys list', 'pets keys list --csv'],
  options: [dataOption],
  prints: 'rows',
  outputOptions: ['csv', 'output'],
  async run(options, context) {
    const { console, clock } = context;
    const { command, manage } = await findKeys(options, context);
    const [stored, bans] = await manage((manager) => Promise.all([manager.list(), manager.bans()]));
    const { quotaOf } = await import('../../store/keys.ts');
    const keys = stored.map((key): ListedKey => {
      const { name, plan, created } = key;
      const until = bans.get(key.sha256) ?? 0;
      const bannedUntil = until > clock.now() ? new Date(until).toISOString() : null;
      return { name, plan, ...quotaOf(key), created, bannedUntil };
    });
    await printRows(console, { columns: columnsOf(console) }, keys);
    if (stored.length === 0)
      console.notice(`the store has no keys. Create one: ${command('pets keys add laptop')}`);
  },
};

const HEADS = {
  name: 'NAME',
  plan: 'PLAN',
  bannedUntil: 'BANNED UNTIL',
  perMinute: 'PER MINUTE',
  perDay: 'PER DAY',
  created: 'CREATED',
} as const satisfies Record<keyof ListedKey, string>;

/** A terminal shows local times. A narrow table does not cut them. */
const columnsOf = ({ localTime }: Console): Column<ListedKey>[] =>
  (Object.keys(HEADS) as (keyof ListedKey)[]).map((name) => ({
    name,
    head: HEADS[name],
    value: (key) => key[name],
    ...(['bannedUntil', 'created'].includes(name) && {
      terminalValue: (time) => time && localTime(Date.parse(String(time))),
      isFlexible: false,
    }),
  }));

const revoke: Command<Data & { name: string }> = {
  name: 'revoke',
  summary: 'revoke a key; a running server rejects it within a second',
  examples: ['pets keys revoke till-1'],
  arguments: [argument('<name>', 'name of the key')],
  options: [dataOption],
  async run(options, context) {
    const { manage } = await findKeys(options, context);
    await manage((keys) => keys.revoke(options.name));
    context.console.notice(`revoked key ${options.name}`);
  },
};

/** Manages the API keys of the local service (docs/service.md, D16). */
export const keys: CommandGroup = {
  name: 'keys',
  summary: 'manage the API keys of pets serve',
  commands: [add, list, revoke],
};
