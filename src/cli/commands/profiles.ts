import { ProxyError, RateLimitError } from '../../client/errors.ts';
import { readRateLimits } from '../../client/rate-limit.ts';
import type { HttpHeaders } from '../../client/response.ts';
import { formatDuration } from '../../system/time-text.ts';
import { connectionFor, createStateDirectory, proxyFor, withClient } from '../connection/connect.ts';
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
  readSettings,
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

/** A rate limit, as `--check` shows it. `reset` is a time in ISO 8601. */
type Limit = { limit?: number; remaining?: number; reset?: string };

/** The result of `--check`, with the limit that has the fewest requests left. `limits` has all if there are several. */
type Check = Limit & {
  ok: boolean;
  message: string;
  code?: string;
  limits?: Limit[];
};

export const profiles: Command<{ check?: boolean }> = {
  name: 'profiles',
  summary: 'list the profiles: saved services with API keys',
  examples: ['pets profiles', 'pets profiles --check'],
  options: [{ flags: '--check', description: 'check each key with its service, and show the requests left' }],
  prints: 'rows',
  async run({ check = false }, context) {
    const { console, globals, env } = context;
    const { defaultProfile } = readSettings(context);
    const usual = chooseProfile({ flags: {}, env, defaultProfile });
    /** The checks that failed because the service rejected the key, not because of the network or a rate limit. */
    const rejected = new Set<Check>();
    const checkKey = check ? createKeyCheck(context, rejected) : undefined;
    const rows: ProfileRow[] = [];
    for (const name of globals.profile === undefined ? profileNames : [globals.profile])
      rows.push(await profileRow(context, name, name === usual, checkKey));
    // List the key in PETS_API_KEY too, because commands without --profile send it.
    const envKey = env['PETS_API_KEY'];
    if (envKey && globals.profile === undefined) rows.push(await environmentRow(context, envKey, checkKey));
    await print(console, { columns: columnsOf(check, context.clock.now()) }, rows);
    // The table has only one or two words about a failed check.
    if (console.isForPeople)
      for (const row of rows)
        if (row.check?.ok === false) console.notice(`${row.profile}: ${row.check.message}`);
    if (console.isTerminal && globals.profile === undefined && rows.every(({ key }) => key === null))
      console.notice('no key saved yet. Log in: pets login. Or start a local service: pets serve --seed');
    const unusable = rows.filter((row) => row.check && rejected.has(row.check));
    if (unusable.length > 0)
      throw new CliError(`rejected: ${unusable.map(({ profile }) => `the key of ${profile}`).join(', ')}`, {
        code: 'bad_key',
        hint: 'to replace a key: pets login --profile <profile>; for local: pets keys add <key-name> --save; for environment: set PETS_API_KEY to a valid key',
      });
    return undefined;
  },
};

const NO_KEY = 'no key';

/** A narrow table cuts only the limits, the scarcest of which comes first. Base URLs are never cut. */
const columnsOf = (withCheck: boolean, now: number): Column<ProfileRow>[] => [
  {
    name: 'profile',
    value: (row) => `${row.profile}${row.default ? ' (default)' : ''}`,
    only: 'table',
    isFlexible: false,
  },
  ...(withCheck ? [CHECK] : []),
  { name: 'profile', value: ({ profile }) => profile, only: 'data' },
  {
    name: 'baseUrl',
    head: 'BASE URL',
    value: (row) => (row.damaged ? 'damaged' : (row.baseUrl ?? '-')),
    isFlexible: false,
  },
  ...(withCheck ? limitColumns(now) : []),
  { name: 'key', value: ({ key }) => key ?? '-', isFlexible: false },
  { name: 'default', value: (row) => (row.default ? 'default' : ''), only: 'data' },
  ...(withCheck
    ? [{ name: 'check', value: ({ check }: ProfileRow) => check?.message ?? NO_KEY, only: 'data' as const }]
    : []),
];

const CHECK: Column<ProfileRow> = {
  name: 'check',
  value: ({ check }) => (check === undefined ? NO_KEY : summarize(check)),
  only: 'table',
  isFlexible: false,
};

const limitColumns = (now: number): Column<ProfileRow>[] => [
  {
    name: 'remaining',
    value: ({ check }) =>
      eachLimit(check, ({ remaining, limit }) =>
        [remaining, limit].filter((number) => number !== undefined).join('/'),
      ),
    only: 'table',
  },
  {
    name: 'resets',
    value: ({ check }) =>
      eachLimit(check, ({ reset }) => reset && `in ${formatDuration(Date.parse(reset) - now)}`),
    only: 'table',
  },
];

/** The texts for the limits of a check, separated by commas; undefined if there are none. */
const eachLimit = (check: Check | undefined, text: (limit: Limit) => string | undefined) =>
  (check?.limits ?? [check ?? {}]).flatMap((limit) => text(limit) || []).join(', ') || undefined;

const SUMMARIES: Readonly<Record<string, string>> = {
  unauthorized: 'rejected',
  rate_limited: 'used up',
  key_banned: 'banned',
  network_error: 'down',
  timeout: 'no response',
};

/** The result of a check in one or two words. */
const summarize = ({ ok, code = '' }: Check): string => (ok ? 'valid' : (SUMMARIES[code] ?? 'failed'));

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

/**
 * Returns a function that checks a key with one request. During a rate limit, it sends one request a minute at most. If
 * a proxy has rejected the user and password (407), keys that need it get the same result without another request.
 */
function createKeyCheck(context: CommandContext, rejected: Set<Check>): KeyCheck {
  const { env, clock, console } = context;
  // Unless stdout is a terminal, the messages are part of the data, so their times are in UTC.
  const times = console.isTerminal ? console : { ...console, timeZone: () => 'UTC' };
  // If PETS_STATE_DIR is not writable, end the command instead of reporting the error as the result of each check.
  createStateDirectory(context);
  const refusals = new Map<string | undefined, Check>();
  return async (connection) => {
    const { baseUrl } = connection;
    try {
      checkProtocol(baseUrl, env);
      const refusal = refusals.get(proxyFor(baseUrl, env)?.address);
      if (refusal) return refusal;
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
      if (cause instanceof ProxyError && cause.status === 407)
        refusals.set(proxyFor(baseUrl, env)?.address, check);
      return check;
    }
  };
}

function checkOf(headers: HttpHeaders, now: number): Check {
  const limits: Limit[] = [];
  const texts: string[] = [];
  const windows = readRateLimits(headers, now);
  for (const { limit, remaining, reset } of windows.sort(
    (a, b) => a.remaining - b.remaining || b.reset - a.reset,
  )) {
    // This message is only in data, where times are in UTC, and not in the table.
    const deadline = formatDeadline(reset, now, 'UTC');
    texts.push(
      `${remaining}${limit === undefined ? '' : ` of ${limit}`} requests left${deadline ? ` ${deadline}` : ''}`,
    );
    limits.push({
      ...(limit !== undefined && { limit }),
      remaining,
      ...(deadline && { reset: new Date(reset).toISOString() }),
    });
  }
  return { ok: true, message: ['valid', ...texts].join(', '), ...limits[0], ...(limits[1] && { limits }) };
}
