// Collects the output that the built command prints without loading the program (src/cli/fast-path.ts).
import { Readable, Writable } from 'node:stream';
import { completionSpec } from '../src/cli/commands/completion.ts';
import { commands } from '../src/cli/commands/index.ts';
import type { CompletionSpec } from '../src/cli/completion/complete.ts';
import { argvKey, type Prerendered } from '../src/cli/fast-path.ts';
import { main } from '../src/cli/main.ts';
import { createProcessContext } from '../src/cli/run.ts';

export async function prerender(): Promise<Prerendered> {
  const completion = completionSpec(commands);
  const pages: Prerendered['pages'][number][] = [];
  for (const argvs of argvsOfPages(completion)) {
    const [argv = []] = argvs;
    pages.push({ arguments: argvs.map(argvKey), text: await run(argv) });
  }
  return { pages, completion };
}

/** Returns a list for each page, with all command lines that print the page. */
function argvsOfPages(program: CompletionSpec): string[][][] {
  const { commands = [] } = program;
  const help = commands.find(({ name }) => name === 'help');
  const shells = commands.find(({ name }) => name === 'completion')?.arguments?.[0]?.choices ?? [];
  const commandPaths = new Set(pathsBelow(program).map(argvKey));
  return [
    [['--version'], ['-V']],
    [[]],
    [['--help'], ['-h'], ['help']],
    ...pathsBelow(help).map((path) =>
      commandPaths.has(argvKey(path))
        ? [
            ['help', ...path],
            [...path, '--help'],
            [...path, '-h'],
          ]
        : [['help', ...path]],
    ),
    ...shells.map((shell) => [['completion', shell]]),
  ];
}

/** The words of every subcommand: `keys`, `keys add`, … */
const pathsBelow = (parent: CompletionSpec | undefined): string[][] =>
  (parent?.commands ?? []).flatMap((each) => [
    [each.name],
    ...pathsBelow(each).map((path) => [each.name, ...path]),
  ]);

/** Returns what the program prints when stdout is a pipe. @throws if the program fails */
async function run(argv: string[]): Promise<string> {
  const text = { stdout: '', stderr: '' };
  const output = (name: keyof typeof text) =>
    new Writable({
      decodeStrings: false,
      write(chunk, _encoding, done) {
        text[name] += chunk;
        done();
      },
    });
  const code = await main({
    ...createProcessContext(),
    argv,
    env: {},
    stdin: Readable.from([]),
    stdout: output('stdout'),
    stderr: output('stderr'),
  });
  if (code !== 0 || text.stderr !== '') throw new Error(`pets ${argv.join(' ')}: ${code} ${text.stderr}`);
  return text.stdout;
}
