import { isAbsolute, join } from 'node:path';
import type { Context } from './context.ts';

/** What says where a user's files are. */
export type Home = Pick<Context, 'env' | 'platform' | 'homeDirectory'>;
type Place = 'config' | 'data' | 'state';

const XDG: Record<Place, string> = {
  config: 'XDG_CONFIG_HOME',
  data: 'XDG_DATA_HOME',
  state: 'XDG_STATE_HOME',
};

const DEFAULTS: Record<'linux' | 'darwin', Record<Place, string[]>> = {
  linux: {
    config: ['.config', 'pets'],
    data: ['.local', 'share', 'pets'],
    state: ['.local', 'state', 'pets'],
  },
  darwin: {
    config: ['Library', 'Preferences', 'pets'],
    data: ['Library', 'Application Support', 'pets'],
    state: ['Library', 'Application Support', 'pets', 'state'],
  },
};

/** Profiles and the keys of local stores. */
export const configDirectory = (context: Home): string =>
  context.env['PETS_CONFIG_DIR'] || directory(context, 'config');

/** The local service's inventory, where `--data` names no other. */
export const dataDirectory = (context: Home): string => join(directory(context, 'data'), 'store');

/** What is known of services, and how far each file of animals is added. */
export const stateDirectory = (context: Home): string => directory(context, 'state');

function directory({ env, platform, homeDirectory }: Home, place: Place): string {
  const base = env[XDG[place]];
  // A relative one is to be ignored: it would mean another place in every directory.
  if (base && isAbsolute(base)) return join(base, 'pets');
  if (platform === 'win32') {
    const roaming = env['APPDATA'] || join(homeDirectory, 'AppData', 'Roaming');
    const local = env['LOCALAPPDATA'] || join(homeDirectory, 'AppData', 'Local');
    return place === 'config' ? join(roaming, 'pets') : join(local, 'pets', place);
  }
  return join(homeDirectory, ...DEFAULTS[platform === 'darwin' ? 'darwin' : 'linux'][place]);
}
