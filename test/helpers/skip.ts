import { spawnSync } from 'node:child_process';
import { test } from 'vitest';

/** Like `test`, but all tests are skipped for this reason if they are not possible. A run prints the reasons at its end. */
export const testIf = (isPossible: boolean, reason: string) =>
  test.extend<{ possible: undefined }>({
    possible: [
      async ({ skip }, use) => {
        skip(!isPossible, reason);
        await use(undefined);
      },
      { auto: true },
    ],
  });

export const isInstalled = (program: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;

/** Tests that need programs, which this machine may lack. */
export const testIfInstalled = (...programs: string[]) => {
  const missing = programs.filter((program) => !isInstalled(program));
  return testIf(missing.length === 0, `not installed: ${missing.join(', ')}`);
};

/** Tests that need a pseudo-terminal. */
export const testAtTerminal = testIf(
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') ?? false,
  'not installed: script of util-linux',
);

/** Tests that mount file systems. Only root can, in a container that allows it. */
export const testWithMounts = testIf(
  spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'none', '/mnt'], { stdio: 'ignore' }).status === 0,
  'this process cannot mount file systems',
);
