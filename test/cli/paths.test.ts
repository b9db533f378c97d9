import { expect, test } from 'vitest';
import { configDirectory, dataDirectory, stateDirectories } from '../../src/cli/profiles/paths.ts';
import { configHint } from '../../src/cli/profiles/profile.ts';

const SHARE = '/home/ada/.local/share/pets/store';

test.each([
  ['linux', {}, '/home/ada/.config/pets', SHARE],
  ['darwin', {}, '/home/ada/Library/Preferences/pets', '/home/ada/Library/Application Support/pets/store'],
  ['win32', {}, '/home/ada/AppData/Roaming/pets', '/home/ada/AppData/Local/pets/data/store'],
  ['win32', { APPDATA: '/r', LOCALAPPDATA: '/l' }, '/r/pets', '/l/pets/data/store'],
  ['linux', { XDG_CONFIG_HOME: '/c', XDG_DATA_HOME: '/d' }, '/c/pets', '/d/pets/store'],
  ['linux', { XDG_CONFIG_HOME: '', XDG_DATA_HOME: '' }, '/home/ada/.config/pets', SHARE],
  ['linux', { PETS_CONFIG_DIR: '/mine', XDG_CONFIG_HOME: '/c' }, '/mine', SHARE],
  ['linux', { PETS_CONFIG_DIR: '~/mine' }, '/home/ada/mine', SHARE],
] as [NodeJS.Platform, Record<string, string>, string, string][])(
  'on %s with %j, profiles are in %s, and the store in %s',
  (platform, env, config, data) => {
    const context = { platform, env, homeDirectory: '/home/ada' };
    expect([configDirectory(context), dataDirectory(context)]).toEqual([config, data]);
  },
);

const TEMPORARY = `/tmp/pets-state-${process.geteuid?.() ?? 'user'}`;

test.each([
  ['linux', {}, ['/home/ada/.local/state/pets', TEMPORARY]],
  ['darwin', {}, ['/home/ada/.local/state/pets', TEMPORARY]],
  ['win32', { LOCALAPPDATA: '/l' }, ['/l/pets/state', TEMPORARY]],
  ['linux', { XDG_STATE_HOME: '/s' }, ['/s/pets', TEMPORARY]],
  ['linux', { PETS_STATE_DIR: '/mine', XDG_STATE_HOME: '/s' }, ['/mine']],
] as [NodeJS.Platform, Record<string, string>, string[]][])(
  'on %s with %j, the state directories are %j; the second is temporary',
  (platform, env, paths) => {
    const context = { platform, env, homeDirectory: '/home/ada', temporaryDirectory: '/tmp' };
    expect(stateDirectories(context)).toEqual(paths.map((path, i) => ({ path, isTemporary: i > 0 })));
  },
);

const CHOWN = 'if it was created with sudo, give it back: sudo chown -R "$(id -un)"';
test.each([
  ['no home directory', '/', {}, 'EACCES', 'set HOME or PETS_CONFIG_DIR to a writable directory'],
  ['files of root', '/home/ada', {}, 'EACCES', `${CHOWN} /home/ada/.config; otherwise, set PETS_CONFIG_DIR`],
  ['a chosen directory of root', '/', { PETS_CONFIG_DIR: '/my pets' }, 'EACCES', `${CHOWN} '/my pets';`],
  ['a mounted file', '/home/ada', {}, 'EBUSY', 'mount its directory instead'],
  ['a file system without modes', '/home/ada', {}, 'EPERM', 'may not support private files'],
  ['a full disk', '/home/ada', {}, 'ENOSPC', 'check this path and the free disk space, or set'],
])('the hint after an error with the files of profiles: %s', (_name, homeDirectory, env, code, hint) => {
  const error = Object.assign(new Error(), { code });
  expect(configHint({ platform: 'linux', env, homeDirectory }, error)).toContain(hint);
});
