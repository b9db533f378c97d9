import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isTrusted } from '../../system/state-directory.ts';
import { writableStateDirectory } from '../connection/state.ts';
import { stateDirectories } from '../profiles/paths.ts';
import type { CommandContext } from '../program/command.ts';
import type { PetFile } from '../rows/read-file.ts';
import { idOf, ledgerDirectory } from './ledger-directory.ts';

/**
 * The directory for the ledgers of a run. A state directory that already has a ledger of the input is used even if it
 * is not writable, because a run with a new ledger would add the rows again.
 *
 * @throws CliError if PETS_STATE_DIR is not writable, unless `dryRun` is set
 */
export function chooseBulkDirectory(
  context: CommandContext,
  { baseUrl, input, dryRun }: { baseUrl: string; input: PetFile; dryRun: boolean },
): string {
  const bulkIn = ({ path }: { path: string }) => join(path, 'bulk');
  const names = input.path === undefined ? [input.sha256] : [input.sha256, input.path];
  const directories = stateDirectories(context);
  const known = directories.find((each) => {
    const ledgers = names.map((name) => ledgerDirectory({ directory: bulkIn(each) }, idOf(baseUrl, name)));
    // Version 0.1 had a directory `paths` instead of ledgers.
    return isTrusted(each) && [...ledgers, join(bulkIn(each), 'paths')].some((path) => existsSync(path));
  });
  if (dryRun) return bulkIn(known ?? directories[0]);
  const writable = writableStateDirectory(context);
  const chosen = known ?? writable ?? directories[0];
  if (chosen.isTemporary)
    context.console.notice(
      `recording the rows in ${chosen.path}; an interrupted run can be resumed only while this directory exists`,
    );
  return bulkIn(chosen);
}
