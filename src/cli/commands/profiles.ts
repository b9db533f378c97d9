import { RateLimitError } from '../../client/errors.ts';
import { scarcestLimit } from '../../client/rate-limit.ts';
import type { HttpHeaders } from '../../client/response.ts';
import { connectionFor, withClient } from '../connection/connect.ts';
import { CliError, toCliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { type Column, print } from '../output/printer.ts';
import { maskKey } from '../output/redact.ts';
import { formatDeadline } from '../output/time.ts';
import {
  type Connection,
  checkProtocol,
  chooseProfile,
  type Profile,
  type ProfileName,
  profileNames,
  readProfile,
} from '../profiles/profile.ts';
import type { Command, CommandContext } from '../program/command.ts';

type ProfileRow = {
  /** `environment` stands for the key in PETS_API_KEY. */
  profile: ProfileName | 'environment';
  baseUrl: string | null;
  /** The masked key (see `maskKey`); null if the profile has none. */
  key: string | null;
  default: boolean;
  /** Set if the file of the profile is damaged or cannot be read. */
  damaged?: true;
  check?: Check;
};

/** The result of `--check`, with the rate limit that has the fewest requests left. `reset` is a time in ISO 8601. */
type Check = {
  ok: boolean;
  message: string;
  code?: string;
  limit?: number;
  remaining?: number;
  reset?: string;
};

export const profiles: Command<{ check?: boolean }> = {
  name: 'profiles',
  summary: 'list the profiles: saved services with API keys',
  examples: ['pets profiles', 'pets profiles --check'],
  options: [{ flags: '--check', description: 'check each key with its service, and show the requests left' }],
  prints: 'rows',
  async run({ check = false }, context) {
    const { console, globals, env } = context;
    const usual = chooseProfile({ ...context, globals: {} });
    /** The checks that failed because the service rejected the key, not because of the network or a rate limit. */
    const rejected = new Set<Check>();
    const checkKey = check ? createKeyCheck(context, rejected) : undefined;
    const rows: ProfileRow[] = [];
    for (const name of globals.profile === undefined ? profileNames : [globals.profile])
      rows.push(await profileRow(context, name, name === usual, checkKey));
    // List the key in PETS_API_KEY too, because commands without --profile send it.
    const envKey = env['PETS_API_KEY'];
    if (envKey && globals.profile === undefined) rows.push(await environmentRow(context, envKey, checkKey));
    await print(console, { columns: columnsOf(check) }, rows);
    // The table has only the code of a failed check.
    if (console.isForPeople)
      for (const row of rows)
        if (row.check?.ok === false) console.notice(`${row.profile}: ${row.check.message}`);
    if (console.isTerminal && globals.profile === undefined && rows.every(({ key }) => key === null))
      console.notice('no key saved yet. Log in: pets login. Or start a local service: pets serve --seed');
    const unusable = rows.filter((row) => row.check && rejected.has(row.check));
    if (unusable.length > 0)
      throw new CliError(`rejected: ${unusable.map(({ profile }) => `the key of ${profile}`).join(', ')}`, {
        code: 'bad_key',
        hint: 'to replace a key: pets login --profile <profile>; for local: pets keys add <key-name> | pets login --profile local; for environment: set PETS_API_KEY to a valid key',
      });
    return undefined;
  },
};

/** A narrow table leaves out the key, and then the base URL, which is never cut. */
function columnsOf(withCheck: boolean): Column<ProfileRow>[] {
  const check: Column<ProfileRow> = {
    name: 'check',
    value: (row) => (row.check === undefined ? 'no key' : row.check.ok ? 'valid' : row.check.code),
    only: 'table',
    isFlexible: false,
  };
  const remaining: Column<ProfileRow> = { name: 'remaining', value: remainingOf, only: 'table' };
  const message = ({ check }: ProfileRow) => check?.message ?? 'no key';
  return [
    {
      name: 'profile',
      value: (row) => `${row.profile}${row.default ? ' (default)' : ''}`,
      only: 'table',
      isFlexible: false,
    },
    ...(withCheck ? [check, remaining] : []),
    { name: 'profile', value: ({ profile }) => profile, only: 'data' },
    {
      name: 'baseUrl',
      head: 'BASE URL',
      value: (row) => (row.damaged ? 'damaged' : (row.baseUrl ?? '-')),
      isFlexible: false,
    },
    { name: 'key', value: ({ key }) => key ?? '-', isFlexible: false },
    { name: 'default', value: (row) => (row.default ? 'default' : ''), only: 'data' },
    ...(withCheck ? [{ name: 'check', value: message, only: 'data' as const }] : []),
  ];
}

/** The requests that are left, such as `70/1000`. */
const remainingOf = ({ check }: ProfileRow) =>
  check?.remaining === undefined || check.limit === undefined
    ? check?.remaining
    : `${check.remaining}/${check.limit}`;

/** The row of a profile. Reports a damaged profile instead of throwing, so that the other profiles are still listed. */
async function profileRow(
  context: CommandContext,
  profile: ProfileName,
  isDefault: boolean,
  checkKey: KeyCheck | undefined,
): Promise<ProfileRow> {
  let stored: Profile | undefined;
  try {
    stored = readProfile(context, profile);
  } catch (error) {
    reportProblem(context, error);
    return { profile, baseUrl: null, key: null, default: isDefault, damaged: true };
  }
  const { baseUrl = null, key } = stored ?? {};
  const check =
    baseUrl && key && (await checkKey?.({ profile, baseUrl, key, keySource: `profile ${profile}` }));
  return { profile, baseUrl, key: key ? maskKey(key) : null, default: isDefault, ...(check && { check }) };
}

/** The row of the key in PETS_API_KEY. Reports a problem, such as a missing base URL, instead of throwing. */
async function environmentRow(
  context: CommandContext,
  envKey: string,
  checkKey: KeyCheck | undefined,
): Promise<ProfileRow> {
  const row: ProfileRow = {
    profile: 'environment',
    baseUrl: null,
    key: maskKey(envKey.trim()),
    default: false,
  };
  let connection: Connection;
  try {
    connection = connectionFor(context);
  } catch (error) {
    const { code, message } = reportProblem(context, error);
    return checkKey ? { ...row, check: { ok: false, message, code } } : row;
  }
  const check = await checkKey?.(connection);
  return { ...row, baseUrl: connection.baseUrl, key: maskKey(connection.key), ...(check && { check }) };
}

function reportProblem(context: CommandContext, error: unknown): CliError {
  const problem = toCliError(error);
  const { message, hint } = problem;
  context.console.notice(hint === undefined ? message : `${message}; ${hint}`);
  return problem;
}

type KeyCheck = (connection: Connection) => Promise<Check>;

/** Returns a function that checks a key with one request. During a rate limit, it sends one request a minute at most. */
function createKeyCheck(context: CommandContext, rejected: Set<Check>): KeyCheck {
  const { env, clock, console } = context;
  // Unless stdout is a terminal, the messages are part of the data, so their times are in UTC.
  const times = console.isTerminal ? console : { ...console, timeZone: () => 'UTC' };
  return async (connection) => {
    const { baseUrl } = connection;
    try {
      checkProtocol(baseUrl, env);
      const { headers } = await withClient(
        { ...context, console: times },
        connection,
        (client) => client.call('listPets', { query: { limit: 1 } }, { ignorePause: true }),
        { once: true },
      );
      return checkOf(headers, clock.now());
    } catch (error) {
      const { cause, code, message: reason, fields, exitCode } = toCliError(error);
      if (code === 'interrupted') throw error;
      const isTooSoon = cause instanceof RateLimitError && !cause.fromResponse;
      const message = isTooSoon ? `already checked within the last minute: ${reason}` : reason;
      const check = { ok: false, message, code, ...(fields.until && { remaining: 0, reset: fields.until }) };
      if (exitCode === exitCodes.noKey) rejected.add(check);
      return check;
    }
  };
}

function checkOf(headers: HttpHeaders, now: number): Check {
  const scarcest = scarcestLimit(headers, now);
  if (scarcest === undefined) return { ok: true, message: 'valid' };
  const { limit, remaining, reset } = scarcest;
  // This message is only in data, where times are in UTC, and not in the table.
  const deadline = formatDeadline(reset, now, 'UTC');
  const left = `${remaining}${limit === undefined ? '' : ` of ${limit}`} requests left`;
  return {
    ok: true,
    message: ['valid,', left, deadline].filter(Boolean).join(' '),
    ...(limit !== undefined && { limit }),
    remaining,
    ...(deadline && { reset: new Date(reset).toISOString() }),
  };
}
