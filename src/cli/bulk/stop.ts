import { CliError } from '../errors/errors.ts';
import type { PlannedRow } from './plan.ts';

/** Why a run stops although each of its rows could be sent. `text` is the error of the rows. */
export type Stop = { reason: 'rejected'; text: string };

/** If this many rows at the start of a run are rejected with the same error, the other rows have the same problem. */
const SAME_REJECTIONS = 20;

/** Decides after each row whether to stop. The first `done` of the rows have a result. */
export function findStop(
  rows: readonly PlannedRow[],
  done: number,
  { keepGoing }: { keepGoing: boolean },
): Stop | undefined {
  if (keepGoing || done !== SAME_REJECTIONS || done === rows.length) return undefined;
  const rejections = rows.slice(0, done).map(rejectionOf);
  const [text] = rejections;
  return text !== undefined && rejections.every((each) => each === text)
    ? { reason: 'rejected', text }
    : undefined;
}

function rejectionOf({ entry }: PlannedRow): string | undefined {
  if (entry?.kind !== 'failed') return undefined;
  const { status, message } = entry.error;
  return `${message} (HTTP status ${status})`;
}

/** `command` is the command line of the run, with `--keep-going`. */
export const toStopError = ({ text }: Stop, command: string): CliError =>
  new CliError(
    `stopped, because the first ${SAME_REJECTIONS} rows were rejected with the same error: ${text}`,
    {
      code: 'some_failed',
      hint: `fix the problem and rerun the command; to send the other rows anyway: ${command}`,
    },
  );
