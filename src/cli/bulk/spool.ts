import type { BulkPlace, Spool } from './job-types.ts';

/** Begins a file for the rows of an input. @throws CliError where the directory cannot be written */
export async function createSpool(_place: BulkPlace): Promise<Spool> {
  throw new Error('to be written');
}
