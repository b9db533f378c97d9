import { lstat, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Machine, Ran, RunOptions } from './pets.ts';

/** A key that no output may show. */
export const CANARY = 'pets_canary-Zq7wK2mX';

export type Refusal = RunOptions & {
  /** The exit code. */
  exit: number;
  /** The error's code in JSON. */
  code?: string;
  /** What the message, or the hint, has to say. */
  says: readonly string[];
};

/** Runs a command that has to fail, as for a person and as for a program, and checks what holds for every failure. */
export async function expectRefusal(
  machine: Machine,
  args: readonly string[],
  { exit, code, says, ...options }: Refusal,
): Promise<void> {
  const before = await kept(machine);
  for (const form of ['human', 'json'] as const) {
    const ran = await machine.pets(form === 'json' ? ['--json', ...args] : args, options);
    expectDecent(ran);
    expect(ran, form).toMatchObject({ code: exit, signal: null, stdout: '' });
    if (form === 'human') {
      expect(ran.stderr).toMatch(/^error: /m);
      for (const words of says) expect(ran.stderr).toContain(words);
    } else {
      const error = lastError(ran);
      expect(error).toEqual(expect.objectContaining({ code: code ?? expect.any(String), exitCode: exit }));
      for (const words of says) expect(`${error.message}\n${error.hint}`).toContain(words);
    }
    expect(await kept(machine), `${form}: nothing is changed`).toEqual(before);
  }
}

/** What a refused command must leave as it was. What it has learned of the service goes, so that the next one asks anew. */
async function kept({ home }: Machine): Promise<Record<string, string>> {
  const state = join('.local', 'state');
  const entries = Object.entries(await snapshot(home));
  expect(JSON.stringify(entries.filter(([name]) => name.startsWith(state)))).not.toContain(CANARY);
  await rm(join(home, state, 'pets', 'services'), { recursive: true, force: true });
  return Object.fromEntries(entries.filter(([name]) => !state.startsWith(name) && !name.startsWith(state)));
}

/** What no output may have: a stack, a path into the program, a key. */
export function expectDecent({ stdout, stderr }: Pick<Ran, 'stdout' | 'stderr'>): void {
  const output = stdout + stderr;
  expect(output).not.toMatch(/^\s+at /m);
  expect(output).not.toMatch(/node:internal|dist\/|node_modules|\.ts:\d/);
  expect(output).not.toContain(CANARY);
  expect(output).not.toMatch(/Invalid input|undefined|\[object /);
}

/** The object on the last line of a `--json` run's stderr. */
export function lastError({ stderr }: Pick<Ran, 'stderr'>): {
  code: string;
  message: string;
  hint?: string;
  status?: number;
} {
  const line = stderr.trimEnd().split('\n').at(-1) ?? '';
  return JSON.parse(line).error;
}

/** Every file below a directory: its mode and its bytes. Sockets and the like by their kind alone. */
export async function snapshot(directory: string): Promise<Record<string, string>> {
  const entries: Record<string, string> = {};
  for (const name of (await readdir(directory, { recursive: true })).sort()) {
    const path = join(directory, name);
    const stats = await lstat(path);
    const mode = (stats.mode & 0o777).toString(8);
    entries[name] = stats.isFile() ? `${mode} ${await readFile(path, 'latin1')}` : mode;
  }
  return entries;
}
