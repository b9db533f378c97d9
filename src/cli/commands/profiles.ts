import { scarcestLimit } from '../../client/rate-limit.ts';
import { connectionFor, withClient } from '../connection/connect.ts';
import { type CliError, toCliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { type Column, printRows } from '../output/printer.ts';
import { maskKey } from '../output/text.ts';
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
  saveJson,
} from '../profiles/profile.ts';
import { argument, type Command, type CommandContext, option } from '../program/command.ts';

type ProfileRow = {
  /** `environment` stands for the key in PETS_API_KEY. */
  profile: ProfileName | 'environment';
  baseUrl: string | null;
  /** The masked key (see `maskKey`); null if the profile has none. */
  key: string | null;
  default: boolean;
  /** Set if the profile or PETS_API_KEY cannot be used, for example because a file is damaged. */
  damaged?: true;
  check?: Check;
};

/** The result of `--check`, with the rate limit that has the fewest requests left, if known. `reset` is in ISO 8601. */
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
  options: [option('--check', 'check each key with its service, and show the requests left')],
  prints: 'rows',
  async run({ check: withCheck = false }, context) {
    const { console, globals, env } = context;
    const usual = chooseProfile({ ...context, globals: {} });
    const withoutOption = env['PETS_API_KEY'] ? 'environment' : usual;
    const sources: [ProfileRow['profile'], () => Profile | undefined][] = (
      globals.profile === undefined ? profileNames : [globals.profile]
    ).map((name) => [name, () => readProfile(context, name)]);
    // List the key in PETS_API_KEY too, because commands without --profile send it.
    if (env['PETS_API_KEY'] && globals.profile === undefined)
      sources.push(['environment', () => connectionFor(context)]);
    const rows: ProfileRow[] = [];
    let failure: { row: ProfileRow; error: CliError } | undefined;
    for (const [profile, read] of sources) {
      const row: ProfileRow = { profile, baseUrl: null, key: null, default: profile === withoutOption };
      rows.push(row);
      try {
        const { baseUrl = null, key } = read() ?? {};
        Object.assign(row, { baseUrl, key: key ? maskKey(key) : null });
        if (!withCheck || !baseUrl || !key) continue;
        const keySource = profile === 'environment' ? 'PETS_API_KEY' : (`profile ${profile}` as const);
        const named = profile === 'environment' ? usual : profile;
        const { check, error } = await checkKey(context, { profile: named, baseUrl, key, keySource });
        row.check = check;
        // The command fails if the check of the key that other commands use fails, or if a key of any profile is rejected.
        const isInUse = profile === (globals.profile ?? withoutOption);
        if (error && (isInUse || error.exitCode === exitCodes.noKey)) failure ??= { row, error };
      } catch (error) {
        // The other rows are still listed.
        const { code, message, hint } = toCliError(error);
        if (code === 'interrupted') throw error;
        console.notice(`${message}; ${hint}`);
        row.damaged = true;
      }
    }
    await printRows(console, { columns: columnsOf(withCheck) }, rows);
    // The rows have only the code of a failed check.
    if (!console.json)
      for (const row of rows)
        if (row.check?.ok === false && row !== failure?.row)
          console.notice(`${row.profile}: ${row.check.message}`);
    if (console.isTerminal && globals.profile === undefined && rows.every((row) => !row.key && !row.damaged))
      console.notice('no key saved yet. Log in: pets login. Or start a local service: pets serve --seed');
    if (failure) throw failure.error;
  },
};

/** A narrow table leaves out the key first, and then the base URL. It never cuts the base URL. */
function columnsOf(withCheck: boolean): Column<ProfileRow>[] {
  const checked: Column<ProfileRow>[] = [
    {
      name: 'check',
      value: ({ check, damaged }) => (check?.ok ? 'valid' : (check?.code ?? (damaged ? '-' : 'no key'))),
      isFlexible: false,
    },
    { name: 'remaining', value: ({ check }) => check?.remaining },
  ];
  return [
    { name: 'profile', value: ({ profile }) => profile, isFlexible: false },
    { name: 'default', value: (row) => (row.default ? 'default' : null), isFlexible: false },
    ...(withCheck ? checked : []),
    {
      name: 'baseUrl',
      head: 'BASE URL',
      value: (row) => (row.damaged ? 'unusable' : (row.baseUrl ?? '-')),
      isFlexible: false,
    },
    { name: 'key', value: ({ key }) => key ?? '-', isFlexible: false },
  ];
}

/** Checks a key with one request. During a rate limit, the client sends at most one a minute. @throws InterruptedError */
async function checkKey(
  context: CommandContext,
  connection: Connection,
): Promise<{ check: Check; error?: CliError }> {
  const { env, clock } = context;
  try {
    checkProtocol(connection.baseUrl, env);
    const { headers } = await withClient(
      context,
      connection,
      (client) => client.call('listPets', { query: { limit: 1 } }, { ignorePause: true }),
      { once: true },
    );
    const scarcest = scarcestLimit(headers, clock.now());
    if (scarcest === undefined) return { check: { ok: true, message: 'valid' } };
    const { limit, remaining, reset } = scarcest;
    const deadline = formatDeadline(reset, clock.now(), 'UTC');
    const left = `valid, ${remaining}${limit === undefined ? '' : ` of ${limit}`} requests left`;
    const check = { ok: true, message: deadline ? `${left} ${deadline}` : left, remaining };
    const time = deadline && { reset: new Date(reset).toISOString() };
    return { check: { ...check, ...(limit !== undefined && { limit }), ...time } };
  } catch (error) {
    const failure = toCliError(error);
    const { code, message, fields } = failure;
    if (code === 'interrupted') throw error;
    const limit = fields.until && { remaining: 0, reset: fields.until };
    return { check: { ok: false, message, code, ...limit }, error: failure };
  }
}

export const use: Command<{ profile: ProfileName }> = {
  name: 'use',
  summary: 'set the default profile',
  examples: ['pets use staging'],
  arguments: [argument('<profile>', 'name of the profile: prod, staging or local', profileNames)],
  async run({ profile }, context) {
    const { console, env } = context;
    await saveJson(context, 'settings', { ...readSettings(context), defaultProfile: profile });
    console.notice(`the default profile is now ${profile}`);
    const override = ['PETS_API_KEY', 'PETS_PROFILE'].find((name) => env[name] && env[name] !== profile);
    if (override) console.notice(`the variable ${override} is set, and takes precedence`);
    if (readProfile(context, profile)?.key === undefined) {
      const next = profile === 'local' ? 'start or restart pets serve' : `pets login --profile ${profile}`;
      console.notice(`profile ${profile} has no key yet. Next: ${next}`);
    }
  },
};
