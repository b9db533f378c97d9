import { type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';

/** Runs a program to its end. `output` is what it has written to stdout and stderr. */
export async function runProgram(
  file: string,
  args: readonly string[],
  options: Pick<SpawnOptions, 'cwd' | 'env'>,
) {
  const child = spawn(file, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  const [code]: (number | null)[] = await once(child, 'close');
  return { code, output };
}
