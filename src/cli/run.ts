import { exitCodes } from './errors/codes.ts';
import { createProcessContext } from './process-context.ts';
import { enableCompileCache } from './program/compile-cache.ts';

/** Runs the program on this process and exits it. */
export async function run(): Promise<void> {
  // Used only if the event loop runs empty before the program has finished, which is a bug.
  process.exitCode = exitCodes.other;
  const context = createProcessContext();
  enableCompileCache(context);
  const { main } = await import('./main.ts');
  process.exitCode = await main(context);
  // Wait until slow readers have received all output. If the reader has closed its end, the write fails and ends the wait.
  await Promise.all(
    [process.stdout, process.stderr].map((stream) => new Promise((end) => stream.write('', end))),
  );
  // Without this, Node would wait for DNS lookups, connection attempts and JIT compilation that no longer matter.
  process.exit();
}
