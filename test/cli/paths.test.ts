import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { Context } from '../../src/cli/context.ts';
import { configDirectory, dataDirectory } from '../../src/cli/paths.ts';

const context = (platform: NodeJS.Platform, env: Context['env']): Context => ({
  argv: [],
  env,
  stdin: new PassThrough(),
  stdout: new PassThrough(),
  stderr: new PassThrough(),
  platform,
  homeDirectory: '/home/ada',
  pid: 1,
  clock: { now: () => 0 },
  sleep: async () => {},
  random: () => 0,
  onSignal: () => () => {},
  exitNow: () => {},
});

test.each([
  ['linux', {}, '/home/ada/.config/pets', '/home/ada/.local/share/pets/store'],
  ['freebsd', {}, '/home/ada/.config/pets', '/home/ada/.local/share/pets/store'],
  ['darwin', {}, '/home/ada/Library/Preferences/pets', '/home/ada/Library/Application Support/pets/store'],
  ['win32', {}, '/home/ada/AppData/Roaming/pets', '/home/ada/AppData/Local/pets/data/store'],
  ['win32', { APPDATA: '/r', LOCALAPPDATA: '/l' }, '/r/pets', '/l/pets/data/store'],
  ['linux', { XDG_CONFIG_HOME: '/c', XDG_DATA_HOME: '/d' }, '/c/pets', '/d/pets/store'],
  ['darwin', { XDG_CONFIG_HOME: '/c' }, '/c/pets', '/home/ada/Library/Application Support/pets/store'],
  [
    'linux',
    { XDG_CONFIG_HOME: '', XDG_DATA_HOME: '' },
    '/home/ada/.config/pets',
    '/home/ada/.local/share/pets/store',
  ],
  [
    'linux',
    { PETS_CONFIG_DIR: '/mine', XDG_CONFIG_HOME: '/c' },
    '/mine',
    '/home/ada/.local/share/pets/store',
  ],
  ['win32', { PETS_CONFIG_DIR: '/mine' }, '/mine', '/home/ada/AppData/Local/pets/data/store'],
  ['linux', { PETS_CONFIG_DIR: '' }, '/home/ada/.config/pets', '/home/ada/.local/share/pets/store'],
] as [NodeJS.Platform, Record<string, string>, string, string][])(
  '%s %j: %s and %s',
  (platform, env, config, data) => {
    expect(configDirectory(context(platform, env))).toBe(config);
    expect(dataDirectory(context(platform, env))).toBe(data);
  },
);
