import * as z from 'zod/mini';
import { INT64_MAX, INT64_MIN } from '../../contract/int64.ts';
import { stringifyJson } from '../../contract/json.ts';
import { usageError } from '../core/errors.ts';
import type { Console } from '../output/console.ts';
import { formatCount } from '../output/format-count.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { cutToWidth } from '../output/width.ts';
import type { RowError, RowValue } from './row.ts';

/** The most terminal columns that a value takes in a message. */
const MAX_VALUE_WIDTH = 40;

/** The beginning of a text from a file, safe to print. */
export function excerpt(text: string): string {
  // The text may be a megabyte long, so cut it before the slower steps.
  return cutToWidth(sanitizeForTerminal(text.slice(0, 4 * MAX_VALUE_WIDTH)), MAX_VALUE_WIDTH);
}

/** The ids that an animal of a seed file may have. */
export const ID_BOUNDS = `from 1 to ${INT64_MAX - 1n}`;

/** The name of a field in CSV files and in options. JSON files use the field names of the service. */
export const columnName = (field: string): string => (field === 'categoryId' ? 'category' : field);

/** The animal in a row, if the row is valid by the schema, or what is wrong with the row. */
export function checkRow<T>(row: RowValue | RowError, schema: z.core.$ZodType<T>): { pet: T } | RowError {
  if ('error' in row) return row;
  const { success, data, error } = z.safeParse(schema, row.value);
  return success ? { pet: data } : describeInvalidRow(error, row);
}

/** Describes why a row is invalid, with the values found, for example `status "gone" must be one of …`. */
export function describeInvalidRow(error: z.core.$ZodError, { value, format }: RowValue): Required<RowError> {
  const problems = error.issues.map(({ path, message }) => {
    const [field] = path.map(String);
    const found = field === undefined ? value : (value as Record<string, unknown>)[field];
    const label = format === 'csv' && field !== undefined ? columnName(field) : field;
    const isInteger = field === 'categoryId' || field === 'id';
    const bounds = field === 'id' ? ID_BOUNDS : `from ${INT64_MIN} to ${INT64_MAX}`;
    const rule = isInteger && found !== undefined ? integerRule(found, format, bounds) : message;
    const shown = found === undefined ? undefined : showValue(found);
    return { error: joinDefined(label, shown, rule), kind: joinDefined(label, rule) };
  });
  return {
    error: problems.map((problem) => problem.error).join('; '),
    kind: problems.map((problem) => problem.kind).join(', and '),
  };
}

const joinDefined = (...parts: (string | undefined)[]): string =>
  parts.filter((part) => part !== undefined).join(' ');

const showValue = (value: unknown): string =>
  typeof value === 'string' ? `"${excerpt(value)}"` : excerpt(stringifyJson(value));

/** The rule that an invalid integer breaks. Mentions the bounds only if the value is a whole number. */
function integerRule(value: unknown, format: RowValue['format'], bounds: string): string {
  const must = 'must be a whole number';
  if (typeof value !== 'string') {
    const number = Number(stringifyJson(value));
    return Number.isInteger(number) || Math.abs(number) === Infinity ? `${must} ${bounds}` : must;
  }
  if (format === 'json') return `${must}, not a string`;
  const text = value.trim();
  if (/^-?[1-9]\d*$/.test(text)) return `${must} ${bounds}`;
  // A whole number may be written as 01, or as 1E+15, which is how spreadsheets write long numbers.
  return Number.isInteger(Number(text)) ? `${must}, in plain digits` : must;
}

/** The number of errors that are shown in full. Further errors are only counted by kind. */
export const MAX_ROW_ERRORS_SHOWN = 20;

const MAX_KINDS_SHOWN = 5;

/** Counts by kind the errors that are not shown in full. */
export class RowErrorSummary {
  #count = 0;
  readonly #kinds = new Map<string, number>();

  add({ error, kind = error }: RowError): void {
    this.#count++;
    this.#kinds.set(kind, (this.#kinds.get(kind) ?? 0) + 1);
  }

  /** A text such as `and 40 more errors: status must be one of …`; undefined if no error was counted. */
  describe(): string | undefined {
    const kinds = [...this.#kinds].toSorted(([, a], [, b]) => b - a);
    const total = `and ${this.#count} more ${this.#count === 1 ? 'error' : 'errors'}`;
    const [only] = kinds;
    if (only === undefined) return undefined;
    if (kinds.length === 1) return `${total}: ${only[0]}`;
    const shown = kinds.slice(0, MAX_KINDS_SHOWN).map(([kind, count]) => `${count} × ${kind}`);
    if (kinds.length > MAX_KINDS_SHOWN) shown.push('and others');
    return `${total}: ${shown.join('; ')}`;
  }
}

/** Reports row errors on stderr as they occur: all of them with `--json`, otherwise the first 20. */
export class RowErrorReporter {
  readonly #console: Console;
  readonly #source: string;
  readonly #more = new RowErrorSummary();
  #count = 0;

  /** @param source the name of the input in messages */
  constructor(console: Console, source: string) {
    this.#console = console;
    this.#source = source;
  }

  async report(line: number, rowError: RowError): Promise<void> {
    const [console, source] = [this.#console, this.#source];
    if (++this.#count > MAX_ROW_ERRORS_SHOWN && !console.hasJsonEvents) return this.#more.add(rowError);
    const message = rowError.error;
    const text = sanitizeForTerminal(`${source}, line ${line}: ${message}`);
    console.event({ fault: { source, line, message } }, text, 2);
    await console.drain();
  }

  /** @throws CliError if any error was reported */
  throwIfAny(): void {
    if (this.#count === 0) return;
    const more = this.#more.describe();
    if (more !== undefined) this.#console.event({ notice: more }, sanitizeForTerminal(`… ${more}`));
    const hint = more === undefined ? 'fix the lines above' : 'fix these errors; --json lists all of them';
    throw usageError(`${formatCount(this.#count, 'error')} in ${this.#source}; nothing was sent`, hint);
  }
}
