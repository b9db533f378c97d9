/** The size of a table column. All widths are in terminal columns. */
export type ColumnSize = {
  /** The width of the widest cell. */
  content: number;
  head: number;
  /** A flexible column shrinks before the other columns. */
  flexible: boolean;
  /** Cells are not cut to less than this. Instead, the last columns of the table are dropped. */
  minWidth: number;
};

const GAP = 2;
/** The gap if a cell of a column that is not flexible would otherwise be cut. */
const NARROW_GAP = 1;

/** Two minimum widths of a flexible column. The second one applies only after the heads of other columns are cut. */
const FLEXIBLE_MIN = 8;
const FLEXIBLE_LAST_MIN = 4;

/** A head is not cut to fewer columns than this, unless `minWidth` is smaller. */
const HEAD_MIN = 4;

/**
 * Fits columns to the terminal. If their natural widths do not fit, flexible columns shrink first, then heads, then the
 * widest columns. If even the smallest widths do not fit, the last columns are dropped.
 *
 * @returns the widths of the columns that fit, from the first one on, and the gap between them
 */
export function fitColumns(sizes: readonly ColumnSize[], terminal: number) {
  let columns = sizes;
  while (columns.length > 1 && sum(columns.map(smallestWidth)) + GAP * (columns.length - 1) > terminal) {
    columns = columns.slice(0, -1);
  }
  const stages: ((size: ColumnSize) => number)[] = [
    (size) => (size.flexible ? FLEXIBLE_MIN : Number.POSITIVE_INFINITY),
    (size) => (size.flexible ? FLEXIBLE_MIN : size.content),
    (size) => (size.flexible ? FLEXIBLE_LAST_MIN : size.content),
    () => 1,
  ];
  const widthsWith = (gap: number) => {
    const available = terminal - gap * (columns.length - 1);
    return stages.reduce((widths, stage) => {
      const minimums = columns.map((size) => Math.max(smallestWidth(size), stage(size)));
      return shrink(widths, minimums, available);
    }, columns.map(naturalWidth));
  };
  const widths = widthsWith(GAP);
  const isCut = columns.some((size, i) => !size.flexible && (widths[i] ?? 0) < size.content);
  return isCut ? { widths: widthsWith(NARROW_GAP), gap: NARROW_GAP } : { widths, gap: GAP };
}

const naturalWidth = ({ content, head }: ColumnSize): number => Math.max(content, head, 1);

const smallestWidth = ({ content, head, minWidth }: ColumnSize): number =>
  Math.max(1, Math.min(content, minWidth), Math.min(head, minWidth, HEAD_MIN));

/** Repeatedly shrinks the widest column that is above its minimum, until the sum fits. */
function shrink(widths: readonly number[], minimums: readonly number[], available: number): number[] {
  const fitted = [...widths];
  while (sum(fitted) > available) {
    const shrinkable = fitted.map((width, i) => (width > (minimums[i] ?? 0) ? width : 0));
    const widest = Math.max(...shrinkable);
    if (widest <= 0) break;
    fitted[shrinkable.indexOf(widest)] = widest - 1;
  }
  return fitted;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
