import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { openJob } from '../../src/cli/bulk/job.ts';
import type { BulkOptions, Job, PendingRow } from '../../src/cli/bulk/job-types.ts';
import { createSpool } from '../../src/cli/bulk/spool.ts';
import type { NewPet } from '../../src/contract/schemas.ts';
import { addAll, sha256 } from './bulk-rows.ts';
import { type ManualClock, manualClock } from './clock.ts';
import { temporaryDirectory } from './temp.ts';

export type Bulk = {
  clock: ManualClock;
  options: BulkOptions;
  /** Opens the job of a file that holds these animals. */
  open(pets: NewPet[], options?: Partial<BulkOptions> & { content?: string }): Promise<Job>;
  /** The same for a whole run, that adds every pending row; gives those. */
  run(pets: NewPet[], options?: Partial<BulkOptions>): Promise<PendingRow[]>;
  /** The directories of jobs. */
  jobs(): Promise<string[]>;
};

/** A state directory, and files in it that were run from /animals.csv. */
export async function bulk(): Promise<Bulk> {
  const clock = manualClock();
  const options: BulkOptions = {
    directory: join(await temporaryDirectory(), 'state', 'bulk'),
    baseUrl: 'http://127.0.0.1:7387/v1',
    source: { name: 'animals.csv', path: '/animals.csv' },
    restart: false,
    skipAdded: false,
    skipCommand: 'pets add --from animals.csv --skip-added',
    clock,
    random: randomBytes,
  };
  const open: Bulk['open'] = async (pets, { content = contentOf(pets), ...more } = {}) => {
    const all = { ...options, ...more };
    const spool = await createSpool(all);
    for (const [i, pet] of pets.entries()) await spool.write({ line: i + 2, pet });
    const job = await openJob(spool, sha256(content), all);
    onTestFinished(() => job.close().catch(() => {}));
    return job;
  };
  return {
    clock,
    options,
    open,
    async run(pets, more) {
      const job = await open(pets, more);
      const rows = await addAll(job);
      await job.finish();
      await job.close();
      return rows;
    },
    async jobs() {
      const names = (await readdir(options.directory)).filter((name) => /^[0-9a-f]{32}$/.test(name));
      return names.map((name) => join(options.directory, name));
    },
  };
}

export const contentOf = (pets: NewPet[]): string =>
  pets.map(({ name, categoryId, status }) => `${name},${categoryId},${status}`).join('\n');

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
