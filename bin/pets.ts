#!/usr/bin/env node
import { exitCodeOnSigterm } from '../src/cli/core/exit-codes.ts';
import { tryFastPath } from '../src/cli/fast-path.ts';

const argv = process.argv.slice(2);
if (!tryFastPath(argv, import.meta.dirname)) {
  process.on('SIGTERM', () => {
    // If a command has added its own listener, that listener decides when the process exits.
    if (process.listenerCount('SIGTERM') === 1) process.exit(exitCodeOnSigterm(argv));
  });
  import('../src/cli/run.ts').then(({ run }) => run());
}
