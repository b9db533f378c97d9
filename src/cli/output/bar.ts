const COLUMNS = 16;

/** Draws a progress bar, such as `[####------------]`. */
export const drawBar = (done: number, total: number): string =>
  `[${'#'.repeat(total === 0 ? COLUMNS : (done / total) * COLUMNS).padEnd(COLUMNS, '-')}]`;
