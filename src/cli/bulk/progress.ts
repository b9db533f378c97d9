import type { Runtime } from '../command.ts';
import type { RowCounts } from './job-types.ts';

/** Without a terminal a plain line now and then is enough. */
const LINE_EVERY = 15_000;
const BAR_COLUMNS = 16;

/** Shows how far the adding of an input is: a bar on a terminal, a line now and then elsewhere. */
export type Progress = {
  /** `quota` is what the service says of its window. */
  show(quota?: Quota): void;
  /** Why it stands still at the moment. */
  pause(reason: string | undefined): void;
  end(): void;
};

export type Quota = { limit: number; remaining: number };

/** `counts` tells how far it is. */
export function createProgress({ console, context }: Runtime, counts: () => RowCounts): Progress {
  const { clock } = context;
  const started = clock.now();
  const atStart = doneOf(counts());
  let toldAt = started;
  let reason: string | undefined;
  let quota: Quota | undefined;

  const state = (): ProgressState => {
    const counted = counts();
    const [done, { left }] = [doneOf(counted), counted];
    const minutes = (clock.now() - started) / 60_000;
    // A rate of the first moments says nothing.
    const measured = minutes > 1 / 60 && done > atStart ? (done - atStart) / minutes : undefined;
    // What is left of this window may go fast; all that is behind it goes as fast as the limit lets it.
    const limit = quota !== undefined && left > quota.remaining ? quota.limit : Number.POSITIVE_INFINITY;
    const rate = measured && Math.min(measured, limit);
    return { done, rows: done + left, rate, reason };
  };
  const draw = () => {
    const now = state();
    console.status(`${barOf(now)} ${progressText(now)}`);
  };

  return {
    show(latest) {
      quota = latest ?? quota;
      if (console.hasStatus) draw();
      else if (clock.now() - toldAt >= LINE_EVERY) {
        toldAt = clock.now();
        const now = state();
        const { done, rows } = now;
        console.event({ progress: { done, rows } }, console.errorColours.dim(progressText(now)));
      }
    },
    pause(text) {
      reason = text;
      draw();
    },
    end: () => console.status(undefined),
  };
}

type ProgressState = {
  done: number;
  rows: number;
  /** Rows a minute; undefined where it is not known yet. */
  rate: number | undefined;
  reason: string | undefined;
};

/** `120/500; waiting 12 s …; 58 a minute, 6 min 33 s left` */
function progressText({ done, rows, rate, reason }: ProgressState): string {
  const speed = rate && `${Math.round(rate)} a minute, ${durationText((rows - done) / rate)} left`;
  return [`${done}/${rows}`, reason, speed].filter(Boolean).join('; ');
}

const barOf = ({ done, rows }: ProgressState): string => {
  const full = Math.floor((done / rows) * BAR_COLUMNS);
  return `[${'#'.repeat(full)}${'-'.repeat(BAR_COLUMNS - full)}]`;
};

function durationText(minutes: number): string {
  const seconds = Math.ceil(minutes * 60);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
}

const doneOf = ({ added, failed, unknown }: RowCounts): number => added + failed + unknown;
