// Downloads the pinned version of Node (node.json) from npm's registry.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import pins from './node.json' with { type: 'json' };

export type Platform = keyof typeof pins.packages;

export const platforms = Object.keys(pins.packages) as Platform[];

/** The platform of this machine, if Node is pinned for it. */
export const thisPlatform = platforms.find(
  (each) => each === `${process.platform.replace('win32', 'win')}-${process.arch}`,
);

/** The path of Node for a platform. */
export const pinnedNode = (platform: Platform): string =>
  join(pinnedPackage(platform), 'bin', platform.startsWith('win') ? 'node.exe' : 'node');

/** The path of the licence of Node, which is the same for all platforms. The package for Windows does not contain it. */
export const pinnedLicense = (): string => join(pinnedPackage('linux-x64'), 'LICENSE');

/**
 * Returns the directory of the package with Node. Downloads Node if that has not been done before. The cache is outside the
 * repository, so that all clones share it.
 *
 * @throws if the downloaded package does not have the pinned checksum
 */
function pinnedPackage(platform: Platform): string {
  const { name, integrity } = pins.packages[platform];
  const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'pets-package');
  const directory = join(cache, `${name}-${pins.version}`);
  if (!existsSync(directory)) {
    const temporary = `${directory}.${process.pid}`;
    mkdirSync(temporary, { recursive: true });
    try {
      download(`${name}@${pins.version}`, integrity, temporary);
      renameSync(join(temporary, 'package'), directory);
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
  }
  return directory;
}

/** Unpacks a package into the folder `package` of a directory. */
function download(specifier: string, integrity: string, directory: string): void {
  // On Windows, npm is a script of the shell.
  const options = { cwd: directory, encoding: 'utf8', shell: process.platform === 'win32' } as const;
  const output = execFileSync('npm', ['pack', '--json', '--ignore-scripts', specifier], options);
  const [packed] = JSON.parse(output) as { filename: string }[];
  const archive = join(directory, packed?.filename ?? '');
  const actual = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
  if (actual !== integrity) throw new Error(`${specifier} has the checksum ${actual}, not ${integrity}`);
  execFileSync('tar', ['-xzf', archive], { cwd: directory });
}
