import { InterruptedError } from '../../client/errors.ts';
import type { ReplyHeaders } from '../../client/headers.ts';
import { readQuota } from '../../client/rate-limit.ts';
import type { Command, Runtime } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { CliError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { CallError } from '../explain/call-error.ts';
import { explain } from '../explain/explain.ts';
import { type Check, type ProfileRow, showProfiles } from '../output/profiles.ts';
import { isoText, untilText } from '../output/time.ts';
import { openProfileFiles, type ProfileFiles } from '../profiles/files.ts';
import { maskKey, type Profile, type ProfileName, profileNames } from '../profiles/profile.ts';
import { allowsHttp, type Connection, checkProtocol, chooseProfile } from '../profiles/resolve.ts';

const SECOND = 1_000;

export const profiles: Command<{ check?: boolean }> = {
  name: 'profiles',
  summary: 'show the profiles',
  examples: ['pets profiles', 'pets profiles --check'],
  options: [
    {
      flags: '--check',
      description: 'ask each service whether the key is valid, and what is left of its limit',
    },
  ],
  async run({ check }, runtime) {
    const { context, console, globals } = runtime;
    const files = openProfileFiles(context);
    const defaultProfile = chooseProfile({
      flags: {},
      env: context.env,
      defaultProfile: files.readSettings().defaultProfile,
    });
    const rows: ProfileRow[] = [];
    const asked = globals.profile === undefined ? profileNames : [globals.profile];
    for (const profile of asked) {
      const stored = readOrTell(runtime, files, profile);
      if (stored === 'damaged') {
        const isDefault = profile === defaultProfile;
        rows.push({ profile, baseUrl: null, key: null, default: isDefault, damaged: true });
        continue;
      }
      const row: ProfileRow = {
        profile,
        baseUrl: stored?.baseUrl ?? null,
        key: stored?.key ? maskKey(stored.key) : null,
        default: profile === defaultProfile,
      };
      rows.push(check && stored?.key ? { ...row, check: await checkStored(runtime, profile, stored) } : row);
    }
    rows.push(...(await environmentRow(runtime, check === true)));
    if (console.json) await console.writeJson(rows);
    else await showProfiles(console, rows, { withCheck: check === true, now: context.clock.now() });
    if (console.isTerminal && rows.every(({ key }) => key === null))
      console.notice('no key is saved yet: pets login, or for the local service pets serve --seed');
    return exitCodes.ok;
  },
};

/** A damaged file of one profile hides none of the others. */
function readOrTell(
  { console, context }: Runtime,
  files: ProfileFiles,
  profile: ProfileName,
): Profile | 'damaged' | undefined {
  try {
    return files.read(profile);
  } catch (error) {
    const { message, hint } = explain(error, context.clock.now());
    console.notice(hint === undefined ? message : `${message}: ${hint}`);
    return 'damaged';
  }
}

/** The pair that PETS_API_KEY makes, which every command without --profile uses. */
async function environmentRow(runtime: Runtime, check: boolean): Promise<ProfileRow[]> {
  const { context, globals } = runtime;
  if (!context.env['PETS_API_KEY'] || globals.profile !== undefined) return [];
  const connection = connectionFor(runtime);
  const { baseUrl, key } = connection;
  const row: ProfileRow = { profile: 'environment', baseUrl, key: maskKey(key), default: false };
  return [check ? { ...row, check: await ask(runtime, connection) } : row];
}

/** @throws CliError where the key must not travel to the profile's base URL */
function connectionOf(
  { context }: Runtime,
  profile: ProfileName,
  { baseUrl, key = '', allowHttp }: Profile,
): Connection {
  checkProtocol(baseUrl, allowHttp === true || allowsHttp(context.env), profile);
  return { profile, baseUrl, key, keySource: `profile ${profile}` };
}

async function checkStored(runtime: Runtime, profile: ProfileName, stored: Profile): Promise<Check> {
  try {
    return await ask(runtime, connectionOf(runtime, profile, stored));
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return failedCheck(error, runtime.context.clock.now());
  }
}

/** Asks once, whatever is known of a cool-down. */
async function ask(runtime: Runtime, connection: Connection): Promise<Check> {
  try {
    const { headers } = await withClient(
      runtime,
      connection,
      (client) => client.call('listPets', { query: { limit: 1 } }, { probe: true }),
      { once: true },
    );
    return checkOf(headers, runtime.context.clock.now());
  } catch (error) {
    if (error instanceof CallError && error.cause instanceof InterruptedError) throw error;
    return failedCheck(error, runtime.context.clock.now());
  }
}

function failedCheck(error: unknown, now: number): Check {
  const { code, message, until } = explain(error, now);
  return { ok: false, message, code, ...(until && { remaining: 0, reset: until }) };
}

function checkOf(headers: ReplyHeaders, now: number): Check {
  const quota = readQuota(headers);
  if (quota === undefined) return { ok: true, message: 'valid' };
  const { limit, remaining, reset } = quota;
  const until = isoText(reset * SECOND);
  const left = `${remaining} of ${limit} requests left`;
  return {
    ok: true,
    message: `valid, ${left}${until ? ` ${untilText(reset * SECOND, now)}` : ''}`,
    limit,
    remaining,
    ...(until && { reset: until }),
  };
}
