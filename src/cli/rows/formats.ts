/** The formats of input files. In a file of its own, so that declaring an option does not load the readers. */
export const rowFormats = ['csv', 'ndjson', 'json'] as const;
export type RowFormat = (typeof rowFormats)[number];
