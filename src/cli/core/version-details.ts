import { existsSync } from 'node:fs';
import manifest from '../../../package.json' with { type: 'json' };
import { isSingleExecutable } from '../../system/bundled-files.ts';

export const { version } = manifest;

/** How pets was installed. `source` is a clone, even if npm has linked it into its directory of global packages. */
export type InstallationKind = 'npm-global' | 'npm-local' | 'executable' | 'deb' | 'source';

/** The output of `pets --version --json`. */
export type VersionDetails = {
  version: string;
  /** The id of the built commit, with `-dirty` if files had changed since; null if unknown, or in a run from source. */
  commit: string | null;
  node: string;
  installedAs: InstallationKind;
};

/** The build replaces this name. The name is not defined if the program runs from source. */
declare const BUILD_COMMIT: string | null;

/** @param directory the directory of the calling module */
export function versionDetails(directory: string): VersionDetails {
  return {
    version,
    commit: typeof BUILD_COMMIT === 'undefined' ? null : BUILD_COMMIT,
    node: process.versions.node,
    installedAs: installationKind(directory, isSingleExecutable() ? process.execPath : undefined, existsSync),
  };
}

/**
 * How pets was installed, according to the paths of its files.
 *
 * @param directory a directory of the package
 * @param executable the path of the running file if it is the executable that contains Node
 */
export function installationKind(
  directory: string,
  executable: string | undefined,
  exists: (path: string) => boolean,
): InstallationKind {
  if (executable !== undefined) {
    // The Debian package installs this marker for its executable in /usr/bin. A copy of the executable has no marker.
    const marker = executable.replace(/[^\\/]*$/, '../lib/pets/installed-as-deb');
    return exists(marker) ? 'deb' : 'executable';
  }
  const [, parent] = /^(.*?)[\\/]node_modules[\\/]/.exec(directory) ?? [];
  if (parent === undefined) return 'source';
  // A project has a package.json, and so has the cache of npx. The directory of global packages has none.
  return exists(`${parent}/package.json`) ? 'npm-local' : 'npm-global';
}
