import { createReadStream } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import * as z from 'zod/mini';
import { INT64_MAX, int64 } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import type { Seed } from '../../store/store.ts';
import { readInput, requireUtf8 } from '../core/input.ts';
import type { Console } from '../output/console.ts';
import { checkRows } from '../rows/read-file.ts';

/** The ids that an animal of a seed file may have. */
const ID_BOUNDS = `from 1 to ${INT64_MAX - 1n}`;

/**
 * Reads the animals of a seed file. Animals with an id keep it. Other animals get ids above the largest id in the file.
 * A JSON document can have orders, too. Prints the errors of rows on stderr.
 *
 * @throws CliError if the file cannot be read or has an error; the reason of `signal` if it is aborted
 */
export async function readSeedFile(path: string, console: Console, signal?: AbortSignal): Promise<Seed> {
  const used = new Set<bigint>();
  const id = int64.check(
    z.refine((value) => value >= 1n && value < INT64_MAX, `must be a whole number ${ID_BOUNDS}`),
    z.refine((value) => used.size < used.add(value).size, 'is already used by an earlier row'),
  );
  const SeedPet = z.object({ id: z.optional(id), ...NewPet.shape }, { error: 'must be a JSON object' });
  const text = requireUtf8(await readInput(createReadStream(path), path, signal), path);
  const { rows, orders } = checkRows(text, SeedPet, { name: path, console, refused: 'nothing was added' });
  await setImmediate();
  signal?.throwIfAborted();
  let last = rows.reduce((max, { pet }) => (pet.id !== undefined && pet.id > max ? pet.id : max), 0n);
  // Changes the animals in place, because a million copies take 100 MB.
  const pets = rows
    .map(({ pet }) => Object.assign(pet, { status: pet.status ?? 'available', id: pet.id ?? ++last }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  return { pets, orders };
}
