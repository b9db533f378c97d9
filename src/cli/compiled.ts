import { lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Home, stateDirectory } from './paths.ts';
import { version } from './version.ts';

/** Node 20 has none. */
type ModuleOfNode22 = { enableCompileCache?(directory: string): unknown };

/** From Node 22 on, what V8 makes of the modules that are loaded behind this is kept for the commands to come. */
export function keepCompiled(context: Home): void {
  const { enableCompileCache } = process.getBuiltinModule('node:module') as ModuleOfNode22;
  const directory = enableCompileCache && compiledDirectory(context);
  if (directory !== undefined) enableCompileCache?.(directory);
}

/**
 * Where compiled code is kept, apart for each version of the program; what other versions have left is removed. It is
 * run as it is found: nobody else may write there, and where somebody may it is undefined. So it is where no command has
 * left anything on this machine yet.
 */
export function compiledDirectory(context: Home): string | undefined {
  const state = stateDirectory(context);
  const all = join(state, 'compiled');
  const own = join(all, version);
  try {
    if (!isOwn(state)) return undefined;
    makeDirectory(all);
    if (!isOwn(all)) return undefined;
    if (makeDirectory(own)) {
      for (const other of readdirSync(all)) {
        if (other !== version) rmSync(join(all, other), { recursive: true, force: true });
      }
    }
    return isOwn(own) ? own : undefined;
  } catch {
    return undefined;
  }
}

/** Says whether it was missing. */
function makeDirectory(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  }
}

/** A directory of this user, which no other can write to. Windows keeps such things by the directories above. */
function isOwn(path: string): boolean {
  const stats = lstatSync(path);
  if (!stats.isDirectory()) return false;
  return process.geteuid === undefined || (stats.uid === process.geteuid() && (stats.mode & 0o022) === 0);
}
