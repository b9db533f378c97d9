import { isAbsolute, join } from 'node:path';
import type { StateDirectory } from '../../client/service-state.ts';
import type { Context } from '../core/context.ts';

/** The parts of the context that determine where a user's files are. */
export type HomeContext = Pick<Context, 'env' | 'platform' | 'homeDirectory'>;

/** Replaces `~` at the start of a path: shells keep it in quotes and in `--data=~/store`. Removes white space at both ends. */
export const expandHome = (path: string, { homeDirectory }: HomeContext): string =>
  path.trim().replace(/^~(?=\/|$)/, () => homeDirectory);

/** The directory for profiles, settings, and the API keys of local stores. */
export const configDirectory = (context: HomeContext): string =>
  expandHome(context.env['PETS_CONFIG_DIR'] ?? '', context) || userPath(context, 'config');

/** The directory of the local service's store, unless `--data`, `--ephemeral` or PETS_DATA chooses another store. */
export const dataDirectory = (context: HomeContext): string => join(userPath(context, 'data'), 'store');

/** The directory for the state of services, the ledgers of imports, `added.json` of `pets add`, and the compile cache. */
export const stateDirectory = (context: HomeContext): string =>
  expandHome(context.env['PETS_STATE_DIR'] ?? '', context) || userPath(context, 'state');

/** The state directory, and one for the state of services alone if the first is not writable. PETS_STATE_DIR replaces both. */
export function stateDirectories(
  context: HomeContext & Pick<Context, 'temporaryDirectory'>,
): [StateDirectory, ...StateDirectory[]] {
  const { env, temporaryDirectory } = context;
  const normal = { path: stateDirectory(context), isTemporary: false };
  if (env['PETS_STATE_DIR']) return [normal];
  // The name has the user id, because all users of a machine may share the directory for temporary files.
  const path = join(temporaryDirectory, `pets-state-${process.geteuid?.() ?? 'user'}`);
  return [normal, { path, isTemporary: true }];
}

function userPath({ env, platform, homeDirectory }: HomeContext, kind: 'config' | 'data' | 'state'): string {
  const base = env[`XDG_${kind.toUpperCase()}_HOME`];
  // The XDG specification says to ignore relative paths.
  if (base && isAbsolute(base)) return join(base, 'pets');
  if (platform === 'win32')
    return kind === 'config'
      ? join(env['APPDATA'] || join(homeDirectory, 'AppData', 'Roaming'), 'pets')
      : join(env['LOCALAPPDATA'] || join(homeDirectory, 'AppData', 'Local'), 'pets', kind);
  const inHome =
    platform === 'darwin'
      ? { config: 'Library/Preferences/pets', data: 'Library/Application Support/pets' }
      : { config: '.config/pets', data: '.local/share/pets' };
  // The state directory is the same on macOS: the lock of a ledger is a socket in it, whose path must be short.
  return join(homeDirectory, { ...inHome, state: '.local/state/pets' }[kind]);
}
