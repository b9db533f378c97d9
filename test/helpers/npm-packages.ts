import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeTemporaryDirectory } from './temp.ts';

export type ProgramResult = { code: number | null; output: string };

/**
 * Installs packages, such as `dredd@14.1.0`, in a new temporary directory, without running their install scripts. Tests
 * use this for programs that are too large or too old for the dependencies of this package.
 *
 * @returns the directory, which the caller must remove; undefined if npm cannot install the packages
 */
export async function installPackages(packages: readonly string[]): Promise<string | undefined> {
  const directory = await makeTemporaryDirectory();
  await writeFile(join(directory, 'package.json'), '{ "private": true }');
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'];
  const { code } = await runProgram('npm', ['install', ...options, ...packages], directory);
  return code === 0 ? directory : undefined;
}

/** Runs a program to its end. The result has the output of stdout and stderr in one text. */
export async function runProgram(
  file: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<ProgramResult> {
  const child = spawn(file, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  const [code] = await once(child, 'close');
  return { code, output };
}
