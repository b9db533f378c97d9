import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../contract/clock.ts';
import { makeDirectorySync } from '../system/directories.ts';

/** Groups that have not changed for this long are deleted. */
const MAX_AGE_MS = 30 * 86_400_000;

/**
 * Flags shared between this user's processes, in named groups. Each flag is an empty file whose name is the flag, so
 * reads and writes need no lock. If the directory cannot be used, this process keeps its flags in memory.
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

/** Flags in a directory, which is created on the first write. */
export function createSharedFlags(directory: string, clock: Clock): SharedFlags {
  const own = createMemoryFlags();
  return {
    list(group) {
      const path = join(directory, group);
      // Most groups do not exist, and existsSync is much faster than catching the error of a missing directory.
      const stored = existsSync(path) ? failOpen(() => readdirSync(path), []) : [];
      return [...new Set([...own.list(group), ...stored])];
    },
    set(group, name) {
      own.set(group, name);
      failOpen(() => {
        if (makeDirectorySync(join(directory, group))) prune(directory, clock.now());
        writeFileSync(join(directory, group, name), '', { mode: 0o600 });
      }, undefined);
    },
    remove(group, name) {
      own.remove(group, name);
      failOpen(() => rmSync(join(directory, group, name), { force: true }), undefined);
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
