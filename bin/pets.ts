#!/usr/bin/env node
import { terminatedCode } from '../src/cli/errors/codes.ts';
import { tryFastPath } from '../src/cli/program/fast-path.ts';

const argv = process.argv.slice(2);
if (!tryFastPath(argv, import.meta.dirname)) {
  process.on('SIGTERM', () => {
    // A command that has to do something before it ends adds its own listener, and then this one does nothing.
    if (process.listenerCount('SIGTERM') === 1) process.exit(terminatedCode(argv));
  });
  import('../src/cli/run.ts').then(({ run }) => run());
}
