import { dirname, isAbsolute, join } from 'node:path';
import type { StateDirectory } from '../../client/state-directory.ts';
import { errnoOf } from '../../system/file-system.ts';
import type { Context } from '../core/context.ts';
import { shellQuote } from '../core/shell-words.ts';

/** The parts of the context that determine where a user's files are. */
export type HomeContext = Pick<Context, 'env' | 'platform' | 'homeDirectory'>;

/** The directory for profiles, settings, and the API keys of local stores. */
export const configDirectory = (context: HomeContext): string =>
  context.env['PETS_CONFIG_DIR'] || directory(context, 'config');

/** The hint after an error of reading or writing a file in the configuration directory. */
export function configHint(context: HomeContext, error: unknown): string {
  const { env, platform, homeDirectory } = context;
  const isChosen = Boolean(env['PETS_CONFIG_DIR']);
  if (!isChosen && homeDirectory === dirname(homeDirectory))
    return 'set HOME or PETS_CONFIG_DIR to a writable directory';
  if (errnoOf(error) !== 'EACCES' || platform === 'win32')
    return 'make the directory writable, or set PETS_CONFIG_DIR to another one';
  // sudo also creates the parent, such as ~/.config, if it does not exist.
  const directory = isChosen ? configDirectory(context) : dirname(configDirectory(context));
  const chown = `sudo chown -R "$(id -un)" ${shellQuote([directory], platform)}`;
  return `if it was created with sudo, give it back: ${chown}; otherwise, set PETS_CONFIG_DIR to another directory`;
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

function directory({ env, platform, homeDirectory }: HomeContext, kind: 'config' | 'data' | 'state'): string {
  const base = env[`XDG_${kind.toUpperCase()}_HOME`];
  // The XDG specification says to ignore relative paths.
  if (base && isAbsolute(base)) return join(base, 'pets');
  if (platform === 'win32')
    return kind === 'config'
      ? join(env['APPDATA'] || join(homeDirectory, 'AppData', 'Roaming'), 'pets')
      : join(env['LOCALAPPDATA'] || join(homeDirectory, 'AppData', 'Local'), 'pets', kind);
  const inHome =
    platform === 'darwin'
      ? { config: 'Library/Preferences/pets', data: MAC_SUPPORT, state: `${MAC_SUPPORT}/state` }
      : { config: '.config/pets', data: '.local/share/pets', state: '.local/state/pets' };
  return join(homeDirectory, inHome[kind]);
}

const MAC_SUPPORT = 'Library/Application Support/pets';
