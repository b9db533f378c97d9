import type { Runtime } from '../command.ts';
import type { StatusLine } from '../output/console.ts';
import { durationText } from '../output/time.ts';
import type { RowCounts } from './job-types.ts';

/** Without a terminal a plain line now and then is enough. */
const LINE_EVERY = 15_000;
const BAR_COLUMNS = 16;
const MINUTE = 60_000;

/** Shows how far the adding of an input is: a bar on a terminal, a line now and then elsewhere. */
export type Progress = {
  /** `quota` is what the service says of its window. */
  show(quota?: Quota): void;
  /** Why it stands still at the moment. */
  pause(reason: StatusLine | undefined): void;
  end(): void;
};

export type Quota = { limit: number; remaining: number };

/** `counts` tells how far it is. */
export function createProgress({ console, context }: Runtime, counts: () => RowCounts): Progress {
  const { clock } = context;
  const started = clock.now();
  const atStart = doneOf(counts());
  let toldAt = started;
  let reason: StatusLine | undefined;
  let quota: Quota | undefined;

  const state = (): ProgressState => {
    const counted = counts();
    const [done, { left }] = [doneOf(counted), counted];
    const minutes = (clock.now() - started) / MINUTE;
    // A rate of the first moments says nothing.
    const measured = minutes > 1 / 60 && done > atStart ? (done - atStart) / minutes : undefined;
    // What is left of this window may go fast; all that is behind it goes as fast as the limit lets it.
    const limit = quota !== undefined && left > quota.remaining ? quota.limit : Number.POSITIVE_INFINITY;
    const rate = measured && Math.min(measured, limit);
    return { done, rows: done + left, rate, reason };
  };
  const draw = () => {
    console.status(progressLine(state()));
  };

  return {
    show(latest) {
      quota = latest ?? quota;
      if (console.hasStatus) draw();
      else if (clock.now() - toldAt >= LINE_EVERY) {
        toldAt = clock.now();
        const now = state();
        const { done, rows } = now;
        console.event({ progress: { done, rows } }, console.errorColours.dim(progressText(now)), 2);
      }
    },
    pause(line) {
      reason = line;
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
  reason: StatusLine | undefined;
};

/** `[####----] 120/500; waiting 12 s …; 58 a minute, 6 min 33 s left`; on a narrow terminal less of it. */
function progressLine(state: ProgressState): StatusLine {
  const [bar, count] = [barOf(state), countOf(state)];
  const reasons = (state.reason ?? []).map((reason) => `${count}; ${reason}`);
  const reasonWithBar = reasons.slice(0, 1).map((text) => `${bar} ${text}`);
  return [`${bar} ${progressText(state)}`, ...reasonWithBar, ...reasons, `${bar} ${count}`, count];
}

function progressText(state: ProgressState): string {
  const { done, rows, rate, reason } = state;
  const speed = rate && `${Math.round(rate)} a minute, ${durationText(((rows - done) / rate) * MINUTE)} left`;
  return [countOf(state), reason?.[0], speed].filter(Boolean).join('; ');
}

const countOf = ({ done, rows }: ProgressState): string => `${done}/${rows}`;

const barOf = ({ done, rows }: ProgressState): string => {
  const full = Math.floor((done / rows) * BAR_COLUMNS);
  return `[${'#'.repeat(full)}${'-'.repeat(BAR_COLUMNS - full)}]`;
};

const doneOf = ({ added, failed, unknown }: RowCounts): number => added + failed + unknown;
