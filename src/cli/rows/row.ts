// This file imports nothing, so that declaring the option --format does not load the readers.

export const rowFormats = ['csv', 'ndjson', 'json'] as const;
export type RowFormat = (typeof rowFormats)[number];

/** Why a row cannot be used. */
export type RowError = { error: string };

/**
 * The parsed value of a row, before validation, or why the row cannot be parsed. `line` (from 1) is the line on which the
 * row starts, or in a JSON document the number of the animal. The fields of a CSV row are strings and bigints.
 */
export type RawRow = { line: number } & ({ value: unknown } | RowError);

/** Matches a name that is empty or invisible in a list. U+2800 is the blank Braille pattern. */
export const EMPTY_NAME = /^[\s\u2800]*$/;

export const MAX_ROW_BYTES = 1_048_576;

export const ROW_TOO_LONG = 'the row is longer than 1 MiB; check for an unclosed quote';
