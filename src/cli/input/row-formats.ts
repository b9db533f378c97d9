/** The forms of a file of animals. Apart from what reads them, which no command line needs to be checked. */
export const rowFormats = ['csv', 'ndjson', 'json'] as const;
export type RowFormat = (typeof rowFormats)[number];
