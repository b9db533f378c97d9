#!/usr/bin/env node
import { main } from '../src/cli/main.ts';
import { createProcessContext } from '../src/cli/process-context.ts';

process.exitCode = await main(createProcessContext());
