import { lstat, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Machine, RunOptions, RunResult } from './pets.ts';

/** An API key that no output may show. */
export const CANARY = 'pets_canary-Zq7wK2mX';

/** A password of a database that no output may show. */
export const PASSWORD_CANARY = 'canary-Jx4nR8vB';

type Failure = RunOptions & {
  exit: number;
  code?: string;
  /** The `status` of the JSON error, which is the HTTP status of the response. */
  status?: number;
  /** Texts that the message or its hint must contain. */
  contains: readonly string[];
};

/** Runs a command without and with `--json`. Both runs must fail as described, leak nothing, and keep the files. */
export async function expectFailure(
  machine: Machine,
  args: readonly string[],
  { exit, code, status, contains, ...options }: Failure,
): Promise<void> {
  const before = await keptFiles(machine);
  for (const form of ['human', 'json'] as const) {
    const ran = await machine.pets(form === 'json' ? ['--json', ...args] : args, options);
    expectNoLeaks(ran);
    expect(ran, form).toMatchObject({ code: exit, stdout: '' });
    if (form === 'human') {
      expect(ran.stderr).toMatch(/^error: .+\n {2}→ ./m);
      for (const words of contains) expect(ran.stderr).toContain(words);
    } else {
      const error = lastError(ran);
      expect(error).toEqual(expect.objectContaining({ code: code ?? expect.any(String), exitCode: exit }));
      if (status !== undefined) expect(error.status).toBe(status);
      for (const words of contains) expect(`${error.message}\n${error.hint}`).toContain(words);
    }
    expect(await keptFiles(machine), `${form}: files are unchanged`).toEqual(before);
  }
}

/**
 * Returns the files outside of the state directory, which a failed command must not change. Checks that the state has
 * no canary. Removes the state of services, because a stored cool-down would prevent requests of the next command.
 */
async function keptFiles({ home }: Machine): Promise<Record<string, string>> {
  const state = join('.local', 'state');
  const entries = Object.entries(await snapshot(home));
  expect(JSON.stringify(entries.filter(([name]) => name.startsWith(state)))).not.toContain(CANARY);
  await rm(join(home, state, 'pets', 'services'), { recursive: true, force: true });
  return Object.fromEntries(entries.filter(([name]) => !state.startsWith(name) && !name.startsWith(state)));
}

/** Checks that the output has no stack trace, no path of the program, no canary, and no text such as `undefined`. */
export function expectNoLeaks({ stdout, stderr }: Pick<RunResult, 'stdout' | 'stderr'>): void {
  const output = stdout + stderr;
  expect(output).not.toMatch(/^\s+at /m);
  expect(output).not.toMatch(/node:internal|dist\/|node_modules|\.ts:\d/);
  expect(output).not.toContain(CANARY);
  expect(output).not.toContain(PASSWORD_CANARY);
  expect(output).not.toMatch(/Invalid input|undefined|\[object /);
}

/** The error on the last line of stderr of a command with `--json`. */
export function lastError({ stderr }: Pick<RunResult, 'stderr'>): {
  code: string;
  message: string;
  hint?: string;
  status?: number;
} {
  const line = stderr.trimEnd().split('\n').at(-1) ?? '';
  return JSON.parse(line).error;
}

/** The mode and content of every file below a directory, by path. Directories, sockets and links have only a mode. */
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
