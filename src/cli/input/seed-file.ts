import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { parse as parseCsv } from 'csv-parse/sync';
import * as z from 'zod/mini';
import { INT64_MAX, int64, int64Text } from '../../contract/int64.ts';
import { describeIssues } from '../../contract/issues.ts';
import { parseJson } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import type { Seed } from '../../store/store.ts';
import { fileError, usageError } from '../cli-error.ts';
import { unguard } from '../output/csv.ts';

const SeedPet = z.object({ id: z.optional(int64), ...NewPet.shape }, { error: 'must be a JSON object' });
type SeedPet = z.infer<typeof SeedPet>;

/** A row of the file, and where it stands, as a fault is reported: `line 7`. */
type Row = { where: string; value: unknown };

const FAULTS_SHOWN = 20;

/**
 * Reads animals, and in JSON orders too, from a file that people edit. Ids that stand in it are kept; rows without
 * one get the ids behind the largest.
 *
 * @throws CliError with every fault of the file by its line
 */
export async function readSeedFile(path: string): Promise<Seed> {
  const read = READERS[extname(path).toLowerCase()];
  if (read === undefined) {
    throw usageError(`cannot tell the format of ${path}`, 'name it .json, .ndjson, .jsonl or .csv');
  }
  const text = decode(
    path,
    await readFile(path).catch((error) => Promise.reject(fileError('read', path, error))),
  );
  const { rows, orders } = read(text, path);
  return { pets: withIds(checkRows(rows, path)), orders };
}

type Reader = (text: string, path: string) => { rows: Row[]; orders: readonly unknown[] };

const READERS: Readonly<Record<string, Reader>> = {
  '.json': readJson,
  '.ndjson': readLines,
  '.jsonl': readLines,
  '.csv': readCsv,
};

function decode(path: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw usageError(`${path} is not UTF-8 text`, 'save it as UTF-8');
  }
}

/** An array of animals, or `{"pets": […], "orders": […]}`. */
function readJson(text: string, path: string): ReturnType<Reader> {
  const value = parseOr(text, (why) => usageError(`${path} is not JSON: ${why}`));
  const { pets, orders } = Array.isArray(value)
    ? { pets: value, orders: [] }
    : ((value ?? {}) as Record<string, unknown>);
  if (!Array.isArray(pets) || !(orders === undefined || Array.isArray(orders))) {
    throw usageError(`${path} must hold an array of animals, or an object with arrays "pets" and "orders"`);
  }
  return { rows: pets.map((each, i) => ({ where: `animal ${i + 1}`, value: each })), orders: orders ?? [] };
}

function readLines(text: string, path: string): ReturnType<Reader> {
  const rows = text
    .split(/\r?\n/)
    .map((line, i) => ({ line: i + 1, text: line }))
    .filter((row) => row.text.trim() !== '')
    .map(({ line, text: row }) => ({
      where: `line ${line}`,
      value: parseOr(row, (why) => usageError(`${path}, line ${line} is not JSON: ${why}`)),
    }));
  return { rows, orders: [] };
}

function readCsv(text: string, path: string): ReturnType<Reader> {
  let records: { record: Record<string, string>; info: { lines: number } }[];
  try {
    records = parseCsv(text, {
      bom: true,
      columns: true,
      info: true,
      skip_empty_lines: true,
    }) as typeof records;
  } catch (error) {
    throw usageError(`${path} is not CSV: ${(error as Error).message}`);
  }
  return {
    rows: records.map(({ record, info }) => ({ where: `line ${info.lines}`, value: fromCells(record) })),
    orders: [],
  };
}

/** Cells are text: numbers become numbers where they are some, so that a fault is told in the contract's words. */
function fromCells(record: Record<string, string>): Record<string, unknown> {
  const value: Record<string, unknown> = {};
  for (const [name, cell] of Object.entries(record)) {
    if (name === 'name') value[name] = unguard(cell);
    else if (cell !== '') value[name] = name === 'status' ? cell : numberOr(cell);
  }
  return value;
}

function numberOr(cell: string): unknown {
  const result = z.safeParse(int64Text, cell);
  return result.success ? result.data : cell;
}

function parseOr(text: string, fault: (why: string) => Error): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw fault((error as Error).message);
  }
}

function checkRows(rows: readonly Row[], path: string): SeedPet[] {
  const faults: string[] = [];
  const ids = new Map<bigint, string>();
  const pets: SeedPet[] = [];
  for (const { where, value } of rows) {
    const result = z.safeParse(SeedPet, value);
    if (!result.success) {
      faults.push(`${path}, ${where}: ${describeIssues(result.error)}`);
      continue;
    }
    const { id } = result.data;
    if (id !== undefined && (id < 1n || id === INT64_MAX))
      faults.push(`${path}, ${where}: id must be from 1 to ${INT64_MAX - 1n}`);
    else if (id !== undefined && ids.has(id))
      faults.push(`${path}, ${where}: id ${id} stands at ${ids.get(id)} already`);
    if (id !== undefined) ids.set(id, where);
    pets.push(result.data);
  }
  if (faults.length > 0) throw usageError(summary(faults), 'mend these lines; nothing was added');
  return pets;
}

function summary(faults: readonly string[]): string {
  const more = faults.length - FAULTS_SHOWN;
  const shown = faults.slice(0, FAULTS_SHOWN).join('; ');
  return more > 0 ? `${shown}; and ${more} more faults` : shown;
}

function withIds(pets: readonly SeedPet[]): Seed['pets'] {
  let next = pets.reduce((max, { id = 0n }) => (id > max ? id : max), 0n);
  return pets
    .map(({ id, status = 'available', ...pet }) => ({ ...pet, status, id: id ?? ++next }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}
