import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isExecutable } from '../system/bundled-files.ts';
import { makeDirectorySync } from '../system/directories.ts';
import { isOwnDirectory } from '../system/state-directory.ts';
import { version } from './core/version-details.ts';
import { type HomeContext, stateDirectory } from './profiles/paths.ts';

/** The part of `node:module` that Node 20 does not have. */
type ModuleOfNode22 = { enableCompileCache?(directory: string): unknown };

/**
 * On Node 22 and newer, caches the compiled code of all modules loaded after this call, so that commands start faster.
 * An executable does not load its modules with Node's loader, so nothing would be cached.
 */
export function enableCompileCache(context: HomeContext): void {
  if (isExecutable()) return;
  const { enableCompileCache } = process.getBuiltinModule('node:module') as ModuleOfNode22;
  const directory = enableCompileCache && compileCacheDirectory(context);
  if (directory !== undefined) enableCompileCache?.(directory);
}

/**
 * The compile-cache directory for this version of the program. Creating the directory deletes those of other
 * versions.
 *
 * @returns undefined if other users could write to the directory, because Node executes cached code; also if the directory
 *   cannot be created, or no command has created the state directory yet
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

const isPrivate = (path: string): boolean => isOwnDirectory(path, 0o022);
