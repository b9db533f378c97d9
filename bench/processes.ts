import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Lab } from './lab.ts';

const TICKS_PER_SECOND = 100;
const hook = join(import.meta.dirname, 'peak-memory.cjs');

export type Ended = { milliseconds: number; stdout: string };

/**
 * Runs a command to its end.
 *
 * @throws where it fails, with what it said
 */
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

/** The same for a script of Node, that writes to a file and tells its peak of memory. */
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

/** Seconds of CPU time that a process has had, of user and system; undefined where there is no /proc. */
export function cpuSeconds(pid: number): number | undefined {
  const stat = readProc(pid, 'stat');
  // The name, in parentheses, may hold anything; utime and stime are the 14th and 15th field.
  const [user, system] =
    stat
      ?.slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
      .map(Number) ?? [];
  return user === undefined || system === undefined ? undefined : (user + system) / TICKS_PER_SECOND;
}

/** The most that a process has had in memory until now (RSS); undefined where there is no /proc. */
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
