import { formatDuration } from '../../contract/time-text.ts';
import type { StatusLine } from '../output/console.ts';
import { drawBar } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';

/** The minimum time between two progress lines, which are written if there is no bar. */
const LINE_EVERY_MS = 15_000;
const MINUTE_MS = 60_000;

/** Shows the progress as a bar if the console has a status line, and otherwise as a line at most every 15 seconds. */
export function createProgressBar(
  { console, clock }: Pick<CommandContext, 'console' | 'clock'>,
  { rows }: { rows: number },
) {
  let started = clock.now();
  /** The number of rows that were done before the first one was sent. */
  let before = 0;
  let done = 0;
  let writtenAt = started;
  let reason: StatusLine | undefined;

  function speedText(): string | undefined {
    const minutes = (clock.now() - started) / MINUTE_MS;
    const left = rows - done;
    // Rate limits are usually per minute, so the speed of less than a minute shows too little.
    if (minutes < 1 || done === before) return undefined;
    const rate = (done - before) / minutes;
    return `${Math.round(rate)} rows/min, ${formatDuration((left / rate) * MINUTE_MS)} left`;
  }
  const text = () => [`${done}/${rows}`, reason?.[0], speedText()].filter(Boolean).join('; ');
  /** Draws `[####----] 120/500; waiting 12 s …; 58 rows/min, 6 min 33 s left`, or less on a narrow terminal. */
  function draw(): void {
    const bar = drawBar(done, rows);
    const count = `${done}/${rows}`;
    const reasons = (reason ?? []).map((each) => `${count}; ${each}`);
    const withBar = reasons.slice(0, 1).map((each) => `${bar} ${each}`);
    console.status([`${bar} ${text()}`, ...withBar, ...reasons, `${bar} ${count}`, count]);
  }

  return {
    /** Begins to measure the speed, when the first of the rows is sent. `already` rows are done. */
    start(already: number): void {
      started = clock.now();
      writtenAt = started;
      before = already;
      done = already;
    },
    /** Counts one more row as done. */
    advance(): void {
      done++;
      if (console.hasStatus) draw();
      else if (clock.now() - writtenAt >= LINE_EVERY_MS) {
        writtenAt = clock.now();
        console.event({ progress: { done, rows } }, console.errorColors.dim(text()), 2);
      }
    },
    /** Shows why the run waits. `line` is undefined when the run continues. */
    pause(line: StatusLine | undefined): void {
      reason = line;
      draw();
    },
    end: () => console.status(undefined),
  };
}
