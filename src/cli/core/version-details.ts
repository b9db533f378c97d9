import manifest from '../../../package.json' with { type: 'json' };

export const { version } = manifest;

/** The output of `pets --version --json`. */
export type VersionDetails = {
  version: string;
  /** The id of the built commit, with `-dirty` if files had changed since; null if unknown, or in a run from source. */
  commit: string | null;
  node: string;
};

/** The build replaces this name. The name is not defined if the program runs from source. */
declare const BUILD_COMMIT: string | null;

export const versionDetails = (): VersionDetails => ({
  version,
  commit: typeof BUILD_COMMIT === 'undefined' ? null : BUILD_COMMIT,
  node: process.versions.node,
});
