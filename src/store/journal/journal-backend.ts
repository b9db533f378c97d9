import type { FileSystem } from '../../system/file-system.ts';
import { timedSyncs } from '../../system/timed-syncs.ts';
import type { Backend, BackendOptions } from '../backend.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { createBanTracker } from '../limits/bans.ts';
import { createMemoryLimiter } from '../limits/memory-limiter.ts';
import { loadBans, saveBans } from './ban-file.ts';
import { openJournalStore } from './journal-store.ts';
import { KeyFiles } from './key-files.ts';

/** Opens the store in a directory for a server. Requests are counted in memory, and bans are kept in a file. */
export async function openJournalBackend(
  directory: string,
  options: BackendOptions,
  files: FileSystem,
): Promise<Backend> {
  const { clock, onWarning, onFailure, onSync = () => {} } = options;
  const timedFiles = timedSyncs(files, clock.elapsed, onSync);
  const store = await openJournalStore({ directory, clock, files: timedFiles, onWarning, onFailure });
  try {
    const keys = new KeyCache(new KeyFiles(directory, { clock, files, onWarning }), clock);
    // If the keys cannot be read, the first request that needs them fails.
    await keys.load().catch(() => {});
    let isWarned = false;
    const bans = createBanTracker(options.bans, clock, await loadBans(directory), async (all) => {
      // The store locks the directory as soon as the disk accepts writes.
      if (!store.isLocked) await store.checkWritable().catch(() => {});
      if (!store.isLocked) return false;
      try {
        await saveBans(directory, all);
        isWarned = false;
        return true;
      } catch (error) {
        if (!isWarned) onWarning((error as Error).message);
        isWarned = true;
        return false;
      }
    });
    await bans.saved();
    const limiter = createMemoryLimiter(clock, bans);
    return {
      store,
      keys,
      limiter,
      async reset(seed) {
        await store.reset(seed);
        limiter.clear();
        await bans.clear();
      },
      banCounts: async () => bans.count(),
      announce: (url) => store.announce(url),
      async close() {
        await bans.saved();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
