import type { RowCounts } from './job-types.ts';

export const rowStates = { fresh: 0, doubt: 1, added: 2, failed: 3, failedNow: 4, unknown: 5 } as const;
export type RowState = (typeof rowStates)[keyof typeof rowStates];

const TOUCHED: readonly RowState[] = [rowStates.doubt, rowStates.added, rowStates.unknown];

/** What a line of an earlier run says of its row. */
export const stateAfter = {
  sending: rowStates.doubt,
  withdrawn: rowStates.fresh,
  added: rowStates.added,
  failed: rowStates.failed,
  unknown: rowStates.unknown,
} as const;

/**
 * What is known of each row (from 1): 13 bytes for each, because there may be a million. `failed` is of an earlier
 * run, `failedNow` of this one.
 */
export class RowStates {
  #states: Uint8Array;
  #offsets: Float64Array;
  #failures: Uint32Array;
  /** How many rows are in each state. */
  #counts: Record<RowState, number>;

  constructor(rows: number) {
    this.#states = new Uint8Array(rows + 1);
    this.#offsets = new Float64Array(rows + 1);
    this.#failures = new Uint32Array(rows + 1);
    this.#counts = { 0: rows, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0 };
  }

  /** `offset` is that of the row's last line in the progress file. */
  set(row: number, state: RowState, offset: number): void {
    this.#counts[this.state(row)]--;
    this.#counts[state]++;
    this.#states[row] = state;
    this.#offsets[row] = offset;
    if (state === rowStates.failed || state === rowStates.failedNow) {
      this.#failures[row] = this.failures(row) + 1;
    }
  }

  state(row: number): RowState {
    return (this.#states[row] ?? 0) as RowState;
  }

  offset(row: number): number {
    return this.#offsets[row] ?? 0;
  }

  /** How many tries of the row have failed. */
  failures(row: number): number {
    return this.#failures[row] ?? 0;
  }

  /** Whether the row may have been added. */
  isTouched(row: number): boolean {
    return TOUCHED.includes(this.state(row));
  }

  /** How many rows may have been added. */
  get touched(): number {
    return TOUCHED.reduce<number>((sum, state) => sum + this.#counts[state], 0);
  }

  counts(): RowCounts {
    const counts = this.#counts;
    return {
      added: counts[rowStates.added],
      failed: counts[rowStates.failed] + counts[rowStates.failedNow],
      unknown: counts[rowStates.unknown],
      left: counts[rowStates.fresh] + counts[rowStates.doubt],
    };
  }
}
