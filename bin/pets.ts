#!/usr/bin/env node
import { main } from '../src/cli/main.ts';
import { createProcessContext } from '../src/cli/process-context.ts';

process.exitCode = await main(createProcessContext());
// All is said. A name that is still looked up, or a connection that is still made, would keep the process for seconds.
setTimeout(() => process.exit(), 20).unref();
