import { keepCompiled } from './compiled.ts';
import { exitCodes } from './errors/exit-codes.ts';
import { createProcessContext } from './process-context.ts';

/** Runs the program on this process, and ends it. */
export async function run(): Promise<void> {
  // Should it ever end with nothing left to wait for, that is no success.
  process.exitCode = exitCodes.other;
  const context = createProcessContext();
  keepCompiled(context);
  const { main } = await import('./main.ts');
  process.exitCode = await main(context);
  // What was said is still on its way to a slow reader; one that has gone fails the write, which ends the wait too.
  await Promise.all(
    [process.stdout, process.stderr].map((stream) => new Promise((end) => stream.write('', end))),
  );
  // All is done and said. What is left would only be waited for: a name that is looked up, a connection that is made,
  // the engine that still optimises what it has run once.
  process.exit();
}
