#!/usr/bin/env node
import { exitCodeOnSigterm, exitCodes } from '../src/cli/core/exit-codes.ts';
import { tryFastPath } from '../src/cli/fast-path.ts';

// The build converts this file to the syntax of 2015, so that an old Node gets as far as this line.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
const { bun } = process.versions;
if (bun || major < 20 || (major === 20 && minor < 19) || process.getBuiltinModule === undefined) {
  const but = !bun && major > 20 ? ` (but not ${major}.${minor})` : '';
  const found = bun ? `Bun ${bun}` : process.version;
  process.stderr.write(`pets needs Node 20.19 or newer${but}; this is ${found}\n`);
  process.exit(exitCodes.other);
}

const argv = process.argv.slice(2);
if (!tryFastPath(argv, import.meta.dirname)) {
  process.on('SIGTERM', () => {
    // If a command has added its own listener, that listener decides when the process exits.
    if (process.listenerCount('SIGTERM') === 1) process.exit(exitCodeOnSigterm(argv));
  });
  import('../src/cli/run.ts').then(({ run }) => run());
}
