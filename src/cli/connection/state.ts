import type { StateOptions } from '../../client/service-state.ts';
import { prepareStateDirectory, type StateDirectory } from '../../system/state-directory.ts';
import { usageError } from '../core/errors.ts';
import { stateDirectories } from '../profiles/paths.ts';
import type { CommandContext } from '../program/command.ts';

/**
 * The first state directory that is writable, created if it is missing; undefined if none is writable.
 *
 * @throws CliError if PETS_STATE_DIR is not writable
 */
export function writableStateDirectory(context: CommandContext): StateDirectory | undefined {
  const writable = stateDirectories(context).find(prepareStateDirectory);
  const given = context.env['PETS_STATE_DIR'];
  if (writable === undefined && given)
    throw usageError(
      `PETS_STATE_DIR is not a writable directory: ${given}`,
      'set it to a directory that you can write to, or unset it',
    );
  return writable;
}

/**
 * Where all commands of this user share what they know about a service. If that cannot be stored, prints one notice per
 * command.
 *
 * @throws CliError if PETS_STATE_DIR is not writable
 */
export function stateOptions(context: CommandContext): StateOptions {
  const { clock, uptime } = context;
  const directories = stateDirectories(context);
  const onUnwritable = () =>
    context.console.noticeOnce(
      `pets commands cannot share their rate-limit waits, because none of these directories is writable: ${directories.map(({ path }) => path).join(', ')}. Set PETS_STATE_DIR to a writable directory`,
    );
  if (writableStateDirectory(context) === undefined) onUnwritable();
  return { clock, uptime, stateDirectories: directories, onUnwritable };
}
