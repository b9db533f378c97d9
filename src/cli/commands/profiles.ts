import { InterruptedError } from '../../client/errors.ts';
import type { ReplyHeaders } from '../../client/headers.ts';
import { readQuota } from '../../client/rate-limit.ts';
import { CallError } from '../call-error.ts';
import { CliError } from '../cli-error.ts';
import type { Command, Runtime } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { exitCodes } from '../exit-codes.ts';
import { explain } from '../explain.ts';
import { openProfileFiles, type ProfileFiles } from '../profiles/files.ts';
import { maskKey, type Profile, type ProfileName, profileNames } from '../profiles/profile.ts';
import { allowsHttp, type Connection, checkProtocol, chooseProfile } from '../profiles/resolve.ts';

type Row = {
  /** `environment` for the key in PETS_API_KEY. */
  profile: ProfileName | 'environment';
  baseUrl: string | null;
  /** Masked. */
  key: string | null;
  default: boolean;
  /** Its file cannot be read. */
  damaged?: true;
  check?: Check;
};

type Check = { ok: boolean; message: string; limit?: number; remaining?: number; reset?: string };

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
    const { context, console } = runtime;
    const files = openProfileFiles(context);
    const defaultProfile = chooseProfile({
      flags: {},
      env: context.env,
      defaultProfile: files.readSettings().defaultProfile,
    });
    const rows: Row[] = [];
    for (const profile of profileNames) {
      const stored = readOrTell(runtime, files, profile);
      if (stored === 'damaged') {
        const isDefault = profile === defaultProfile;
        rows.push({ profile, baseUrl: null, key: null, default: isDefault, damaged: true });
        continue;
      }
      const row: Row = {
        profile,
        baseUrl: stored?.baseUrl ?? null,
        key: stored?.key ? maskKey(stored.key) : null,
        default: profile === defaultProfile,
      };
      rows.push(check && stored?.key ? { ...row, check: await checkStored(runtime, profile, stored) } : row);
    }
    rows.push(...(await environmentRow(runtime, check === true)));
    if (console.json) await console.writeJson(rows);
    else await console.write(await render(runtime, rows, check === true));
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
async function environmentRow(runtime: Runtime, check: boolean): Promise<Row[]> {
  const { context, globals } = runtime;
  if (!context.env['PETS_API_KEY'] || globals.profile !== undefined) return [];
  const connection = connectionFor(runtime);
  const { baseUrl, key } = connection;
  const row: Row = { profile: 'environment', baseUrl, key: maskKey(key), default: false };
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
    return { ok: false, message: error.message };
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
    return checkOf(headers);
  } catch (error) {
    if (error instanceof CallError && error.cause instanceof InterruptedError) throw error;
    return { ok: false, message: explain(error, runtime.context.clock.now()).message };
  }
}

function checkOf(headers: ReplyHeaders): Check {
  const quota = readQuota(headers);
  if (quota === undefined) return { ok: true, message: 'valid' };
  const { limit, remaining, reset } = quota;
  const time = new Date(reset * 1_000);
  const until = Number.isNaN(time.getTime()) ? undefined : time.toISOString();
  return {
    ok: true,
    message: `valid, ${remaining} of ${limit} requests left${until ? ` until ${until.slice(11, 19)} UTC` : ''}`,
    limit,
    remaining,
    ...(until && { reset: until }),
  };
}

async function render({ console }: Runtime, rows: readonly Row[], withCheck: boolean): Promise<string> {
  const { renderRows } = await import('../output/table.ts');
  const columns = [
    { head: 'PROFILE' },
    { head: 'BASE URL', wide: true },
    { head: 'KEY' },
    { head: 'DEFAULT' },
    ...(withCheck ? [{ head: 'CHECK', wide: true }] : []),
  ];
  return renderRows(
    console,
    columns,
    rows.map((row) => [
      row.profile,
      row.damaged ? 'damaged' : (row.baseUrl ?? '-'),
      row.key ?? '-',
      row.default ? 'default' : '',
      ...(withCheck ? [row.check?.message ?? 'not logged in'] : []),
    ]),
  );
}
