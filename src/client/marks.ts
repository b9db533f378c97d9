import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Clock } from '../contract/clock.ts';

/** A group that nobody has changed for so long is forgotten. */
const KEPT_MILLISECONDS = 30 * 86_400_000;

/**
 * What all processes of a user tell each other: facts that are nothing but names, each in a group. A name is an empty
 * file, so that to read or write one takes no lock and nothing can be half written.
 *
 * It fails open: where the directory cannot be used, this process alone knows what it has put.
 */
export type Marks = {
  list(group: string): string[];
  put(group: string, name: string): void;
  remove(group: string, name: string): void;
};

/** Marks that this process keeps for itself. */
export function createOwnMarks(): Marks {
  const groups = new Map<string, Set<string>>();
  return {
    list: (group) => [...(groups.get(group) ?? [])],
    put: (group, name) => groups.set(group, new Set(groups.get(group)).add(name)),
    remove: (group, name) => groups.get(group)?.delete(name),
  };
}

/** Marks in a directory, which is made where it is missing. */
export function createMarks(directory: string, clock: Clock): Marks {
  const own = createOwnMarks();
  return {
    list(group) {
      const path = join(directory, group);
      // Most groups are empty, and an error is costly: a list of many pages asks before each.
      const others = existsSync(path) ? openly(() => readdirSync(path), []) : [];
      return [...new Set([...own.list(group), ...others])];
    },
    put(group, name) {
      own.put(group, name);
      openly(() => {
        if (makeDirectory(join(directory, group))) prune(directory, clock.now());
        writeFileSync(join(directory, group, name), '', { mode: 0o600 });
      }, undefined);
    },
    remove(group, name) {
      own.remove(group, name);
      openly(() => rmSync(join(directory, group, name), { force: true }), undefined);
    },
  };
}

/** Services and keys that are no longer used, as those of a service that ran for one test. */
function prune(directory: string, now: number): void {
  for (const group of readdirSync(directory)) {
    const path = join(directory, group);
    openly(() => {
      if (now - statSync(path).mtimeMs > KEPT_MILLISECONDS) rmSync(path, { recursive: true, force: true });
    }, undefined);
  }
}

function openly<Result>(use: () => Result, otherwise: Result): Result {
  try {
    return use();
  } catch {
    return otherwise;
  }
}

/**
 * Makes a directory and those above it; says whether it was missing. Step by step: Node's own way of making several
 * never ends where a file system says ENOENT to everything.
 */
function makeDirectory(path: string): boolean {
  try {
    return makeOne(path);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error;
    makeDirectory(dirname(path));
    return makeOne(path);
  }
}

function makeOne(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    return false;
  }
}

const codeOf = (error: unknown): unknown => (error as NodeJS.ErrnoException).code;
