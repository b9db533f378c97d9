#!/usr/bin/env node
import { main } from '../src/cli/main.ts';
import { createProcessContext } from '../src/cli/process-context.ts';

process.exitCode = await main(createProcessContext());
// What was said is still on its way to a slow reader; one that has gone fails the write, which ends the wait too.
await Promise.all(
  [process.stdout, process.stderr].map((stream) => new Promise((end) => stream.write('', end))),
);
// A name that is still looked up, or a connection that is still made, would keep the process for seconds.
setTimeout(() => process.exit(), 20).unref();
