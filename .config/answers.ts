// Asks the program what the entry of the built command answers without it: src/cli/instant.ts.
import { Readable, Writable } from 'node:stream';
import { commands } from '../src/cli/commands/index.ts';
import { type Completable, completionTable } from '../src/cli/completion/table.ts';
import { type Answers, keyOf } from '../src/cli/instant.ts';
import { main } from '../src/cli/main.ts';
import { createProcessContext } from '../src/cli/process-context.ts';

export async function collectAnswers(): Promise<Answers> {
  const completion = completionTable(commands);
  const pages: Answers['pages'][number][] = [];
  for (const sameText of questions(completion)) {
    const [argv = []] = sameText;
    pages.push({ arguments: sameText.map(keyOf), text: await ask(argv) });
  }
  return { pages, completion };
}

/** Lists of arguments, together where the answer is the same. */
function questions(program: Completable): string[][][] {
  const help = program.commands.find(({ name }) => name === 'help');
  const shells = program.commands.find(({ name }) => name === 'completion')?.arguments[0]?.choices ?? [];
  const commandPaths = new Set(pathsOf(program).map(keyOf));
  return [
    [['--version'], ['-V']],
    [[]],
    [['--help'], ['-h'], ['help']],
    ...pathsOf(help).map((path) =>
      commandPaths.has(keyOf(path))
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

/** `keys`, `keys add`, … */
const pathsOf = (parent: Completable | undefined): string[][] =>
  (parent?.commands ?? []).flatMap((each) => [
    [each.name],
    ...pathsOf(each).map((path) => [each.name, ...path]),
  ]);

/** What the program prints to a pipe. @throws where it does not succeed */
async function ask(argv: string[]): Promise<string> {
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
