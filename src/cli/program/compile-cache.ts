import { lstatSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import manifest from '../../../package.json' with { type: 'json' };
import { makeDirectorySync } from '../../system/directories.ts';
import { type HomeContext, stateDirectory } from '../profiles/paths.ts';

export const { version } = manifest;

/** The part of `node:module` that Node 20 does not have. */
type ModuleOfNode22 = { enableCompileCache?(directory: string): unknown };

/** On Node 22 and newer, caches the compiled code of all modules loaded after this call, so that commands start faster. */
export function enableCompileCache(context: HomeContext): void {
  const { enableCompileCache } = process.getBuiltinModule('node:module') as ModuleOfNode22;
  const directory = enableCompileCache && compileCacheDirectory(context);
  if (directory !== undefined) enableCompileCache?.(directory);
}

/**
 * The compile-cache directory for this version of the program. Creating the directory deletes those of other
 * versions.
 *
 * @returns undefined if other users could write to the directory, because Node executes cached code, or if no command
 *   has created the state directory yet
 */
export function compileCacheDirectory(context: HomeContext): string | undefined {
  const state = stateDirectory(context);
  const all = join(state, 'compiled');
  const own = join(all, version);
  try {
    if (!isPrivate(state)) return undefined;
    makeDirectorySync(all);
    if (!isPrivate(all)) return undefined;
    if (makeDirectorySync(own)) {
      for (const other of readdirSync(all)) {
        if (other !== version) rmSync(join(all, other), { recursive: true, force: true });
      }
    }
    return isPrivate(own) ? own : undefined;
  } catch {
    return undefined;
  }
}

/** Whether this is a directory that only this user can write to. On Windows, parent directories control access. */
function isPrivate(path: string): boolean {
  const stats = lstatSync(path);
  if (!stats.isDirectory()) return false;
  return process.geteuid === undefined || (stats.uid === process.geteuid() && (stats.mode & 0o022) === 0);
}
