import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Lab } from './lab.ts';

const hook = join(import.meta.dirname, 'peak-memory.cjs');

export type Ended = { milliseconds: number; stdout: string };

/** Runs a command until it exits. @throws Error with the stderr of the command if the command fails */
export async function runCommand(
  lab: Lab,
  command: readonly string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string; timeout?: number } = {},
): Promise<Ended> {
  const started = performance.now();
  const child = lab.spawn(command, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  const [[code], stdout, stderr] = await Promise.all([
    once(child, 'close'),
    text(child.stdout as Readable),
    text(child.stderr as Readable),
  ]);
  const milliseconds = performance.now() - started;
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}: ${stderr}`);
  return { milliseconds, stdout };
}

/** Runs a Node script, and measures its duration and peak memory. `stdout` is the file descriptor for its output. */
export async function runMeasured(
  lab: Lab,
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; stdout: number | 'ignore' },
): Promise<{ milliseconds: number; megabytes: number }> {
  const started = performance.now();
  const child = lab.spawn([process.execPath, '-r', hook, ...args], {
    ...(options.env && { env: options.env }),
    stdio: ['ignore', options.stdout, 'pipe', 'pipe'],
  });
  const [[code], stderr, kilobytes] = await Promise.all([
    once(child, 'close'),
    text(child.stderr as Readable),
    text(child.stdio[3] as Readable),
  ]);
  const milliseconds = performance.now() - started;
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
  return { milliseconds, megabytes: Number(kilobytes) / 1024 };
}

/** The peak memory (RSS) of a process so far; undefined without /proc. */
export function peakMegabytes(pid: number): number | undefined {
  const kilobytes = /VmHWM:\s+(\d+)/.exec(readProc(pid, 'status') ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
}

function readProc(pid: number, name: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return undefined;
  }
}

/** The unit of the times in /proc, in milliseconds. */
const TICK = 10;

/** The processor time of a process and its ended children so far, in milliseconds; undefined without /proc. */
export function processorTime(pid: number): number | undefined {
  // The name of the program is in parentheses, and may contain spaces.
  const fields = readProc(pid, 'stat')?.split(') ')[1]?.split(' ');
  return fields?.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * TICK, 0);
}

/** The running children of a process; none without /proc. */
export const childrenOf = (pid: number): number[] =>
  (readProc(pid, `task/${pid}/children`) ?? '').split(' ').flatMap((child) => Number(child) || []);
