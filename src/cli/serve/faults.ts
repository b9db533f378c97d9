import { createReadStream } from 'node:fs';
import * as z from 'zod/mini';
import { describeFirstIssue } from '../../contract/issues.ts';
import { jsonErrorLine, parseJson } from '../../contract/json.ts';
import type { FaultSettings } from '../../server/faults/fault-settings.ts';
import type { FaultOptions } from '../../server/faults/faults.ts';
import type { Context } from '../context.ts';
import { usageError } from '../errors/errors.ts';
import { formatCount } from '../output/format-count.ts';
import { readInput, utf8Text } from '../rows/input-file.ts';
import type { ServeOptions } from './options.ts';

/** The faults at the start: those in the file of `--faults`, with the fields that other options replace. */
export async function initialFaults(
  { latency, failRate, faultSeed, faults: path }: ServeOptions,
  { random }: Pick<Context, 'random'>,
): Promise<FaultOptions> {
  const settings: FaultSettings = path === undefined ? {} : await readFaultFile(path);
  return {
    latency: latency ?? settings.latency,
    failRate: failRate ?? settings.failRate,
    seed: faultSeed ?? settings.seed ?? Math.floor(random() * 2 ** 32),
    rules: settings.rules,
  };
}

/** Reads a file that has the form of a body of `PUT /faults`. @throws CliError */
async function readFaultFile(path: string): Promise<FaultSettings> {
  const text = utf8Text(await readInput(createReadStream(path), path), path, 'json').toString();
  const document = parseDocument(text, path);
  const { FaultSettings } = await import('../../server/faults/fault-settings.ts');
  const { success, data, error } = z.safeParse(FaultSettings, document);
  if (!success) throw usageError(`${path}: ${describeFirstIssue(error, 'the document')}`);
  return data;
}

function parseDocument(text: string, path: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    const line = jsonErrorLine(text);
    const place = line === undefined ? path : `${path}, line ${line}`;
    throw usageError(`${place}: invalid JSON: ${(error as Error).message}`);
  }
}

/** Describes the faults, with the seed that repeats the random ones; undefined if there are none. */
export function describeFaults({ latency, failRate, seed, rules = [] }: FaultOptions): string | undefined {
  const parts: string[] = [];
  if (latency) {
    const { min, max } = latency;
    parts.push(`responses delayed by ${min === max ? min : `${min} to ${max}`} ms`);
  }
  if (failRate !== undefined) parts.push(`${Number((failRate * 100).toPrecision(3))} % of requests fail`);
  if (rules.length > 0) parts.push(formatCount(rules.length, 'rule'));
  return parts.length === 0 ? undefined : `faults: ${parts.join(', ')} (--fault-seed ${seed})`;
}
