import type { FileSystem } from './file-system.ts';

/** Returns a file system that reports how long each sync of a file takes, in milliseconds, also if the sync fails. */
export function timedSyncs(
  files: FileSystem,
  elapsed: () => number,
  onSync: (milliseconds: number) => void,
): FileSystem {
  return {
    ...files,
    async open(path, mode) {
      const file = await files.open(path, mode);
      return {
        ...file,
        async datasync() {
          const started = elapsed();
          try {
            await file.datasync();
          } finally {
            onSync(elapsed() - started);
          }
        },
      };
    },
  };
}
