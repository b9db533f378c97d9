import { InterruptedError, ProxyError } from '../../client/errors.ts';
import type { HttpHeaders } from '../../client/headers.ts';
import { readRateLimit } from '../../client/rate-limit.ts';
import { connectionFor, withClient } from '../connection/connect.ts';
import { proxyFor } from '../connection/proxy.ts';
import { writableStateDirectory } from '../connection/state.ts';
import type { UserError } from '../core/exit-codes.ts';
import { CallError } from '../errors/call-error.ts';
import { describeError } from '../errors/describe-error.ts';
import { maskKey } from '../output/redact.ts';
import { formatDeadline } from '../output/time.ts';
import { readProfile, readSettings } from '../profiles/files.ts';
import { type Connection, type Profile, type ProfileName, profileNames } from '../profiles/profile.ts';
import { checkProtocol, chooseProfile } from '../profiles/resolve.ts';
import { type Check, type ProfileRow, showProfiles } from '../profiles/show-profiles.ts';
import type { Command, CommandContext } from '../program/command.ts';

export const profiles: Command<{ check?: boolean }> = {
  name: 'profiles',
  summary: 'list the profiles and their services',
  examples: ['pets profiles', 'pets profiles --check'],
  options: [
    { flags: '--check', description: 'check each key with its service and show the remaining requests' },
  ],
  prints: 'rows',
  async run({ check = false }, context) {
    const { console, globals } = context;
    const { defaultProfile } = readSettings(context);
    const usual = chooseProfile({ flags: {}, env: context.env, defaultProfile });
    const rows: ProfileRow[] = [];
    const checkKey = check ? createKeyCheck(context) : undefined;
    for (const profile of globals.profile === undefined ? profileNames : [globals.profile]) {
      rows.push(await profileRow(context, { profile, isDefault: profile === usual, checkKey }));
    }
    // List the key in PETS_API_KEY too, because commands without --profile send it.
    if (context.env['PETS_API_KEY'] && globals.profile === undefined) {
      rows.push(await environmentRow(context, context.env['PETS_API_KEY'], checkKey));
    }
    await showProfiles(console, rows, { withCheck: check, now: context.clock.now() });
    if (console.isTerminal && rows.every(({ key }) => key === null))
      console.notice('no key saved yet. Log in: pets login. Or start a local service: pets serve --seed');
  },
};

/** Reports a missing base URL, or another problem of the settings, instead of throwing. */
async function environmentRow(
  context: CommandContext,
  envKey: string,
  checkKey: KeyCheck | undefined,
): Promise<ProfileRow> {
  let connection: Connection;
  try {
    connection = connectionFor(context);
  } catch (error) {
    const { code, message } = reportProblem(context, error);
    const row: ProfileRow = {
      profile: 'environment',
      baseUrl: null,
      key: maskKey(envKey.trim()),
      default: false,
    };
    return checkKey ? { ...row, check: { ok: false, message, code } } : row;
  }
  const { baseUrl, key } = connection;
  const row: ProfileRow = { profile: 'environment', baseUrl, key: maskKey(key), default: false };
  return checkKey ? { ...row, check: await checkKey(connection) } : row;
}

function reportProblem(context: CommandContext, error: unknown): UserError {
  const problem = describeError(error, context);
  const { message, hint } = problem;
  context.console.notice(hint === undefined ? message : `${message}; ${hint}`);
  return problem;
}

/** Reports a damaged profile instead of throwing, so that the other profiles are still listed. */
async function profileRow(
  context: CommandContext,
  {
    profile,
    isDefault,
    checkKey,
  }: { profile: ProfileName; isDefault: boolean; checkKey?: KeyCheck | undefined },
): Promise<ProfileRow> {
  let stored: Profile | undefined;
  try {
    stored = readProfile(context, profile);
  } catch (error) {
    reportProblem(context, error);
    return { profile, baseUrl: null, key: null, default: isDefault, damaged: true };
  }
  const { baseUrl = null, key } = stored ?? {};
  const row = { profile, baseUrl, key: key ? maskKey(key) : null, default: isDefault };
  if (!checkKey || !baseUrl || !key) return row;
  const connection: Connection = { profile, baseUrl, key, keySource: `profile ${profile}` };
  return { ...row, check: await checkKey(connection) };
}

type KeyCheck = (connection: Connection) => Promise<Check>;

/**
 * Returns a function that checks a key with one request, which may be sent during a cool-down too. After a proxy has
 * refused the user (407), keys that need the same proxy get the same result without a request.
 */
function createKeyCheck(context: CommandContext): KeyCheck {
  const { env, clock, console } = context;
  // The messages are part of the data unless stdout is a terminal.
  const times = console.isTerminal ? console : { timeZone: () => 'UTC' };
  // If PETS_STATE_DIR is not writable, end the command instead of reporting the error as the result of each check.
  writableStateDirectory(context);
  const refusals = new Map<string | undefined, Check>();
  return async (connection) => {
    const { baseUrl } = connection;
    try {
      checkProtocol(baseUrl, env);
      const refusal = refusals.get(proxyFor(baseUrl, env)?.address);
      if (refusal) return refusal;
      const { headers } = await withClient(
        context,
        connection,
        (client) => client.call('listPets', { query: { limit: 1 } }, { ignorePause: true }),
        { once: true },
      );
      return checkOf(headers, clock.now());
    } catch (error) {
      const { cause, proxy } = error instanceof CallError ? error : {};
      if (cause instanceof InterruptedError) throw error;
      const { code, message, until } = describeError(error, { ...context, console: times });
      const check = { ok: false, message, code, ...(until && { remaining: 0, reset: until }) };
      if (cause instanceof ProxyError && cause.status === 407) refusals.set(proxy?.address, check);
      return check;
    }
  };
}

function checkOf(headers: HttpHeaders, now: number): Check {
  const quota = readRateLimit(headers, now);
  if (quota === undefined) return { ok: true, message: 'valid' };
  const { limit, remaining, reset } = quota;
  // A table does not have this message, and elsewhere times are in UTC.
  const deadline = formatDeadline(reset, now, 'UTC');
  const left = `${remaining}${limit === undefined ? '' : ` of ${limit}`} requests left`;
  return {
    ok: true,
    message: `valid, ${left}${deadline ? ` ${deadline}` : ''}`,
    ...(limit !== undefined && { limit }),
    remaining,
    ...(deadline && { reset: new Date(reset).toISOString() }),
  };
}
