import { isAbsolute, join } from 'node:path';
import type { StateDirectory } from '../../client/state-directory.ts';
import { errnoOf } from '../../system/file-system.ts';
import type { Context } from '../core/context.ts';

/** The parts of the context that determine where a user's files are. */
export type HomeContext = Pick<Context, 'env' | 'platform' | 'homeDirectory'>;
type Kind = 'config' | 'data' | 'state';

const XDG: Record<Kind, string> = {
  config: 'XDG_CONFIG_HOME',
  data: 'XDG_DATA_HOME',
  state: 'XDG_STATE_HOME',
};

const DEFAULTS: Record<'linux' | 'darwin', Record<Kind, string>> = {
  linux: { config: '.config/pets', data: '.local/share/pets', state: '.local/state/pets' },
  darwin: {
    config: 'Library/Preferences/pets',
    data: 'Library/Application Support/pets',
    state: 'Library/Application Support/pets/state',
  },
};

/** The directory for profiles, settings, and the API keys of local stores. */
export const configDirectory = (context: HomeContext): string =>
  context.env['PETS_CONFIG_DIR'] || directory(context, 'config');

/** The hint after an error of writing to the configuration directory. */
export function configHint(error: unknown): string {
  return errnoOf(error) === 'ENOSPC'
    ? 'free some disk space, or set PETS_CONFIG_DIR to a directory on another disk'
    : 'make the directory writable, or set PETS_CONFIG_DIR to another one';
}

/** The directory of the local service's store, unless `--data` or PETS_DATA chooses another store. */
export const dataDirectory = (context: HomeContext): string => join(directory(context, 'data'), 'store');

/** The directory for the rate-limit state of services, the ledgers of imports, and the compile cache. */
export const stateDirectory = (context: HomeContext): string =>
  context.env['PETS_STATE_DIR'] || directory(context, 'state');

/**
 * The state directory, and the directory to use if it is not writable. The compile cache is stored only in the first of
 * them. PETS_STATE_DIR replaces both.
 */
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

function directory({ env, platform, homeDirectory }: HomeContext, kind: Kind): string {
  const base = env[XDG[kind]];
  // The XDG specification says to ignore relative paths.
  if (base && isAbsolute(base)) return join(base, 'pets');
  if (platform === 'win32') {
    const roaming = env['APPDATA'] || join(homeDirectory, 'AppData', 'Roaming');
    const local = env['LOCALAPPDATA'] || join(homeDirectory, 'AppData', 'Local');
    return kind === 'config' ? join(roaming, 'pets') : join(local, 'pets', kind);
  }
  return join(homeDirectory, DEFAULTS[platform === 'darwin' ? 'darwin' : 'linux'][kind]);
}
