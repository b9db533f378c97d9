import { StoreError } from '../../store/errors.ts';
import { errnoOf } from '../../store/files.ts';
import { CliError, fileError } from '../errors/cli-error.ts';

const RESTART = '--restart, which adds every row, and what is added already a second time';

export const rowsText = (count: number): string => `${count} ${count === 1 ? 'row' : 'rows'}`;

/** What helps where a file was changed; so many of its rows were sent before. */
export function skipHint(command: string, sent: number): string {
  const animals =
    sent === 1 ? 'the animal that was sent before' : `the ${sent} animals that were sent before`;
  const restart = sent === 0 ? '' : ` (--restart would add ${animals} a second time)`;
  return `add only the rows that are not added yet: ${command}${restart}`;
}

/** What an error of the file system or of the lock is to the user; any other is handed back. */
export function placeError(directory: string, error: unknown): unknown {
  if (error instanceof CliError) return error;
  const isFull = errnoOf(error) === 'ENOSPC';
  // What is known of earlier runs stays behind in the old directory: whoever moves on would add those rows again.
  const hint = `${isFull ? 'free some space there' : 'make it writable'}; or, where nothing of this input was added yet, set XDG_STATE_HOME to a writable directory on a local disk`;
  if (error instanceof StoreError) {
    const { message } = error;
    return new CliError(message, { code: 'file_error', hint, cause: error });
  }
  return errnoOf(error) === undefined ? error : fileError('write', directory, error, hint);
}

export const readError = (path: string, cause: unknown): CliError =>
  fileError('read', path, cause, `restore it, or use ${RESTART}`);

/** A job's file can no longer be written: nothing may be sent that would not be recorded. */
export const writeError = (path: string, cause: unknown): CliError =>
  fileError('write', path, cause, 'mend that, then run the same command again: it goes on where it stopped');

export const damagedError = (path: string, line: number, why: string): CliError =>
  new CliError(`${path} is damaged in line ${line}: ${why}`, {
    code: 'damaged_file',
    hint: `it was left as it is. Move it away, or use ${RESTART}`,
  });

export const newerVersionError = (path: string, version: number): CliError =>
  new CliError(`${path} has format ${version}, which a newer version of pets wrote`, {
    code: 'damaged_file',
    hint: `use that version. Or move the file away, or use ${RESTART}`,
  });

/** Another process has the job. */
export const alreadyRunningError = (name: string, pid: number | undefined): CliError =>
  new CliError(`${name} is being added by ${pid ? `process ${pid}` : 'another process'} already`, {
    code: 'already_running',
    hint: 'wait until it has ended, then run the same command again',
  });

/** The input is another than that of which rows were added. */
export const fileChangedError = (message: string, hint: string): CliError =>
  new CliError(message, {
    code: 'file_changed',
    hint,
  });
