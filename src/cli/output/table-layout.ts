/** What the layout asks of a column; all widths are columns of the terminal. */
export type Extent = {
  /** The widest cell. */
  content: number;
  head: number;
  /** Gives way before the others, down to a width that still tells its cells apart. */
  wide: boolean;
  /** Not narrower than this: the last columns go rather. */
  atLeast: number;
};

export type Layout = {
  /** The widths of the columns that are shown: so many of the first ones. */
  widths: number[];
  gap: number;
};

const GAP = 2;
/** Where a cell would be cut for the other one. */
const NARROW_GAP = 1;

/** What a wide column keeps while another has anything to spare, and while another loses no more than its heading. */
const WIDE_AT_LEAST = 8;
const WIDE_AT_LAST = 4;

/** What is left of a heading, where its column has a width to keep. */
const HEAD_AT_LEAST = 4;

/**
 * Widths that fit the terminal. Each column is as wide as it would like to be, and only where that is too much the wide
 * ones give way, then headings, then whatever is widest; where even that does not do, the last columns are left out.
 */
export function fitColumns(extents: readonly Extent[], terminal: number): Layout {
  let columns = extents;
  while (columns.length > 1 && sum(columns.map(floor)) + GAP * (columns.length - 1) > terminal) {
    columns = columns.slice(0, -1);
  }
  const steps: ((extent: Extent) => number)[] = [
    (extent) => (extent.wide ? WIDE_AT_LEAST : Number.POSITIVE_INFINITY),
    (extent) => (extent.wide ? WIDE_AT_LEAST : extent.content),
    (extent) => (extent.wide ? WIDE_AT_LAST : extent.content),
    () => 1,
  ];
  const widthsWith = (gap: number) => {
    const room = terminal - gap * (columns.length - 1);
    return steps.reduce((widths, step) => {
      const least = columns.map((extent) => Math.max(floor(extent), step(extent)));
      return shrink(widths, least, room);
    }, columns.map(wish));
  };
  const widths = widthsWith(GAP);
  const isCut = columns.some((extent, i) => !extent.wide && (widths[i] ?? 0) < extent.content);
  return isCut ? { widths: widthsWith(NARROW_GAP), gap: NARROW_GAP } : { widths, gap: GAP };
}

const wish = ({ content, head }: Extent): number => Math.max(content, head, 1);

const floor = ({ content, head, atLeast }: Extent): number =>
  Math.max(1, Math.min(content, atLeast), Math.min(head, atLeast, HEAD_AT_LEAST));

/** Takes from the widest that may be narrower until the sum fits. */
function shrink(widths: readonly number[], least: readonly number[], room: number): number[] {
  const fitted = [...widths];
  for (let excess = sum(fitted) - room; excess > 0; excess--) {
    let widest = -1;
    fitted.forEach((width, i) => {
      if (width > (least[i] ?? 0) && width > (fitted[widest] ?? 0)) widest = i;
    });
    if (widest === -1) break;
    fitted[widest] = (fitted[widest] ?? 0) - 1;
  }
  return fitted;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
