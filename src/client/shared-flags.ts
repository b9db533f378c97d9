import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../contract/clock.ts';
import { makeDirectorySync } from '../system/directories.ts';
import { isTrusted, prepareStateDirectory, type StateDirectory } from '../system/state-directory.ts';

/** Groups that have not changed for this long are deleted. */
const MAX_AGE_MS = 30 * 86_400_000;

/**
 * Flags shared between this user's processes, in named groups. Each flag is an empty file whose name is the flag, so
 * reads and writes need no lock. This process also keeps its own flags in memory.
 */
export type SharedFlags = {
  list(group: string): string[];
  set(group: string, name: string): void;
  remove(group: string, name: string): void;
};

export function createMemoryFlags(): SharedFlags {
  const groups = new Map<string, Set<string>>();
  return {
    list: (group) => [...(groups.get(group) ?? [])],
    set: (group, name) => groups.set(group, new Set(groups.get(group)).add(name)),
    remove: (group, name) => groups.get(group)?.delete(name),
  };
}

/**
 * Flags in directories. A flag is written to the first directory that accepts it, and read from all of them, because a
 * directory may have become read-only or full after another process wrote to it.
 *
 * @param onUnwritable is called for each flag that no directory accepts
 */
export function createSharedFlags(
  directories: readonly StateDirectory[],
  clock: Clock,
  onUnwritable: () => void = () => {},
): SharedFlags {
  const own = createMemoryFlags();
  const servicesIn = ({ path }: StateDirectory) => join(path, 'services');
  const write = (directory: StateDirectory, group: string, name: string): boolean => {
    if (!prepareStateDirectory(directory)) return false;
    const services = servicesIn(directory);
    if (makeDirectorySync(join(services, group))) prune(services, clock.now());
    writeFileSync(join(services, group, name), '', { mode: 0o600 });
    return true;
  };
  const read = (directory: StateDirectory, group: string): string[] => {
    const path = join(servicesIn(directory), group);
    // Most groups do not exist, and existsSync is much faster than catching the error of a missing directory.
    return existsSync(path) && isTrusted(directory) ? readdirSync(path) : [];
  };
  const remove = (directory: StateDirectory, group: string, name: string): void => {
    if (isTrusted(directory)) rmSync(join(servicesIn(directory), group, name), { force: true });
  };
  return {
    list(group) {
      const stored = directories.flatMap((directory) => failOpen(() => read(directory, group), []));
      return [...new Set([...own.list(group), ...stored])];
    },
    set(group, name) {
      own.set(group, name);
      const isStored = directories.some((directory) => failOpen(() => write(directory, group, name), false));
      if (!isStored) onUnwritable();
    },
    remove(group, name) {
      own.remove(group, name);
      for (const directory of directories) failOpen(() => remove(directory, group, name), undefined);
    },
  };
}

/** Deletes the groups of services and keys that are no longer used. */
function prune(directory: string, now: number): void {
  for (const group of readdirSync(directory)) {
    const path = join(directory, group);
    failOpen(() => {
      if (now - statSync(path).mtimeMs > MAX_AGE_MS) rmSync(path, { recursive: true, force: true });
    }, undefined);
  }
}

/** Ignores errors: a broken state directory must not stop a command. */
function failOpen<Result>(use: () => Result, fallback: Result): Result {
  try {
    return use();
  } catch {
    return fallback;
  }
}
