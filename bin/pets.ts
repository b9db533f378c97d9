#!/usr/bin/env node
import { answerAtOnce } from '../src/cli/instant.ts';

if (!(await answerAtOnce(process.argv.slice(2), import.meta.dirname))) {
  const [{ main }, { createProcessContext }] = await Promise.all([
    import('../src/cli/main.ts'),
    import('../src/cli/process-context.ts'),
  ]);
  process.exitCode = await main(createProcessContext());
  // What was said is still on its way to a slow reader; one that has gone fails the write, which ends the wait too.
  await Promise.all(
    [process.stdout, process.stderr].map((stream) => new Promise((end) => stream.write('', end))),
  );
  // All is done and said. What is left would only be waited for: a name that is looked up, a connection that is made,
  // the engine that still optimises what it has run once.
  process.exit();
}
