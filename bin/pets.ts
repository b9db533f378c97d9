#!/usr/bin/env node
import { answerAtOnce } from '../src/cli/instant.ts';

if (!answerAtOnce(process.argv.slice(2), import.meta.dirname)) {
  import('../src/cli/run.ts').then(({ run }) => run());
}
