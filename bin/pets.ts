#!/usr/bin/env node
import { tryFastPath } from '../src/cli/program/fast-path.ts';

if (!tryFastPath(process.argv.slice(2), import.meta.dirname)) {
  import('../src/cli/run.ts').then(({ run }) => run());
}
